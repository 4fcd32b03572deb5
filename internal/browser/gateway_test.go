package browser_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The gateway's demo has the page, and it tells of a request why it went where it went.
func TestGatewayDemo(t *testing.T) {
	ctx := browser(t)
	program := t.TempDir() + "/gateway"
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"github.com/warmroute/warmroute/examples/gateway").CombinedOutput()
	require.NoError(t, err, "%s", built)
	listen, admin := free(t), free(t)
	cmd := exec.Command(program, "-listen", listen, "-admin", admin, "-drain-delay", "1ms")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	})
	ask := func(question string) bool {
		body := fmt.Sprintf(`{"model": "demo", "max_tokens": 8, "user": "visitor", "messages": [
			{"role": "system", "content": %q}, {"role": "user", "content": %q}]}`,
			bytes.Repeat([]byte("You know every shelf of a small library. "), 8), question)
		res, err := http.Post("http://"+listen+"/v1/chat/completions", "application/json", bytes.NewBufferString(body))
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	}
	require.Eventually(t, func() bool { return ask("Where are the lighthouses?") }, 30*time.Second, 100*time.Millisecond)

	require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(1400, 900), chromedp.Navigate("http://"+admin+"/debug/")))
	eventually(ctx, t, `[...document.querySelectorAll('.view')].some(v => v.textContent === 'live')`)
	for range 8 { // a prompt this short may be drawn elsewhere
		require.True(t, ask("And where are the whales?"))
	}
	const warm = `[...document.querySelectorAll('#decisions tbody tr[id]')].find(r => Number(r.cells[8].dataset.sort) > 0)`
	eventually(ctx, t, `Boolean(`+warm+`)`)
	see[bool](ctx, t, warm+`.cells[5].click() ?? true`)
	require.NoError(t, chromedp.Run(ctx, chromedp.WaitVisible(`.detail .words`)))
	require.Regexp(t, `has \d+ of the prompt's \d+ tokens cached`, see[string](ctx, t, `document.querySelector('.detail').textContent`))
	screenshot(ctx, t, "gateway", 1400, "light")
}

// free returns an address that nobody listens at.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
