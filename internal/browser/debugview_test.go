package browser_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

// browser starts the browser that WARMROUTE_BROWSER names, and fails the test if a page
// throws or breaks its own content security policy.
func browser(t *testing.T) context.Context {
	path := os.Getenv("WARMROUTE_BROWSER")
	if path == "" {
		t.Skip("WARMROUTE_BROWSER names no browser; make test-browser does")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %s", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the page wrote to the console: %v", e.Args)
		}
	})
	return ctx
}

// see evaluates JavaScript in the page.
func see[T any](ctx context.Context, t *testing.T, script string) (v T) {
	t.Helper()
	require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(script, &v)), script)
	return v
}

// eventually waits until a condition in JavaScript holds.
func eventually(ctx context.Context, t *testing.T, condition string) {
	t.Helper()
	err := chromedp.Run(ctx, chromedp.Poll(condition, nil, chromedp.WithPollingInterval(100*time.Millisecond),
		chromedp.WithPollingTimeout(20*time.Second)))
	require.NoError(t, err, "never true: %s", condition)
}

// screenshot writes a picture of the page for people to look at.
func screenshot(ctx context.Context, t *testing.T, name string, width int64, scheme string) {
	t.Helper()
	dir := os.Getenv("WARMROUTE_SHOTS")
	if dir == "" {
		return
	}
	var png []byte
	require.NoError(t, chromedp.Run(ctx,
		chromedp.EmulateViewport(width, 900),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.FullScreenshot(&png, 100)))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

const rows = `[...document.querySelectorAll('#decisions tbody tr[id]')]`

func TestDebugview(t *testing.T) {
	ctx := browser(t)
	f := startFleet(t)
	f.play(t.Context(), 8, 6, 100*time.Millisecond)
	require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(1400, 900), chromedp.Navigate(f.page.URL+"/debug/")))
	require.Equal(t, "Warmroute", see[string](ctx, t, `document.title`))
	require.Equal(t, 48, see[int](ctx, t, rows+`.length`))

	// Live, without reloading.
	see[bool](ctx, t, `window.same = true`)
	f.serve(t.Context(), "late-session", make([]uint32, 640), anywhere)
	eventually(ctx, t, rows+`.length === 49 && `+rows+`[0].textContent.includes('late-session')`)
	require.True(t, see[bool](ctx, t, `window.same`))

	// Sorted by what a click names, and the other way by a second.
	prompts := rows + `.map(r => Number(r.cells[3].dataset.sort))`
	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`#decisions thead th:nth-child(4) button`)))
	descending := see[[]float64](ctx, t, prompts)
	require.IsNonIncreasing(t, descending)
	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`#decisions thead th:nth-child(4) button`)))
	require.IsNonDecreasing(t, see[[]float64](ctx, t, prompts))
	require.Equal(t, "ascending", see[string](ctx, t, `document.querySelector('#decisions th[aria-sort]').getAttribute('aria-sort')`))

	// Filtered by words, and by words that must not occur.
	require.NoError(t, chromedp.Run(ctx, chromedp.SendKeys(`#filter`, "user-1 ok")))
	require.Equal(t, 6, see[int](ctx, t, rows+`.filter(r => !r.hidden).length`))
	require.NoError(t, chromedp.Run(ctx, chromedp.SendKeys(`#filter`, " -ok")))
	require.Equal(t, 0, see[int](ctx, t, rows+`.filter(r => !r.hidden).length`))
	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`#decisions thead th:nth-child(4) button`),
		chromedp.Evaluate(`document.getElementById('filter').value = ''`, nil),
		chromedp.SendKeys(`#filter`, "user-7")))

	// Opened, it says what won and by how much, and stays open while the page goes on.
	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`#decisions tbody tr[id]:not([hidden]) td:nth-child(6)`),
		chromedp.WaitVisible(`.detail .words`)))
	words := see[string](ctx, t, `document.querySelector('.detail').textContent`)
	require.Regexp(t, `engine-[a-d] wins with 0\.\d{3} of 1`, words)
	require.Contains(t, words, "of the prompt's")
	require.Contains(t, words, "It ended: ok")
	f.serve(t.Context(), "later-session", make([]uint32, 640), anywhere)
	eventually(ctx, t, rows+`.length === 50`)
	require.Equal(t, 1, see[int](ctx, t, `document.querySelectorAll('.detail').length`))
	screenshot(ctx, t, "decision", 1400, "light")
	screenshot(ctx, t, "decision-dark", 1400, "dark")
	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`#decisions tbody tr.open td:nth-child(6)`)))
	eventually(ctx, t, `!document.querySelector('.detail')`)

	// Each decision has a page of its own, without scripts too.
	require.NoError(t, chromedp.Run(ctx, chromedp.Navigate(f.page.URL+"/debug/decision?id=3"), chromedp.WaitVisible(`#decision`)))
	require.Contains(t, see[string](ctx, t, `document.body.textContent`), "Pick 3 went to engine-")
	screenshot(ctx, t, "decision-narrow", 420, "light")
}

// Engines that are cut off in different ways are named with what is wrong and what to do.
func TestBrokenEngines(t *testing.T) {
	ctx := browser(t)
	f := startFleet(t)
	ctxPlay, stop := context.WithCancel(t.Context())
	defer stop()
	go f.play(ctxPlay, 6, 1000, 200*time.Millisecond)
	require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(1400, 900), chromedp.Navigate(f.page.URL+"/debug/")))
	eventually(ctx, t, `![...document.querySelectorAll('.view')].some(v => v.textContent === 'never') && !document.querySelector('.problem.s2')`)

	f.publishers[1].Silence(true)              // its connection stands, and nothing comes
	f.publishers[2].Inject(enginetest.Lose, 5) // neither sent nor kept
	f.servers[3].Close()                       // its metrics cannot be read
	go func() {                                // the picker avoids such engines
		for i := uint32(0); ctxPlay.Err() == nil; i++ {
			for engine := 1; engine <= 2; engine++ {
				f.serve(ctxPlay, "faithful", slices.Repeat([]uint32{900_000 + i}, 64), engine)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	for engine, problem := range map[string]string{
		"engine-b": "Its events have stopped", "engine-c": "Events were lost for good", "engine-d": "Its metrics are",
	} {
		eventually(ctx, t, `[...document.querySelectorAll('.problem.s2')].some(p => p.textContent.includes('`+engine+
			`: `+problem+`'))`)
	}
	require.Equal(t, "stale", see[string](ctx, t, `[...document.querySelectorAll('#endpoints tbody tr')]
		.find(r => r.textContent.includes('engine-b')).querySelector('.view').textContent`))
	failures := see[string](ctx, t, `document.getElementById('failures').textContent`)
	require.Contains(t, failures, "warmroute_subscriber_stream_lost_total")
	require.Contains(t, failures, "engine-c")
	require.NotContains(t, see[string](ctx, t, `document.getElementById('problems').textContent`), "engine-a")
	screenshot(ctx, t, "broken", 1400, "light")
	screenshot(ctx, t, "broken-dark", 1400, "dark")
	screenshot(ctx, t, "broken-narrow", 420, "light")
}
