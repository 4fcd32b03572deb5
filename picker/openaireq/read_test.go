package openaireq_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/picker/openaireq"
)

func TestReadBodyRearms(t *testing.T) {
	const body = `0123456789, and more`
	for name, length := range map[string]int64{"length": int64(len(body)), "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/v1/completions", iotest.OneByteReader(strings.NewReader(body)))
			r.ContentLength = length
			if length < 0 {
				r.TransferEncoding = []string{"chunked"}
			}
			got, err := openaireq.ReadBody(r, int64(len(body)))
			require.NoError(t, err)
			require.Equal(t, body, string(got))
			require.EqualValues(t, len(body), r.ContentLength)
			require.Empty(t, r.TransferEncoding)
			again, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, body, string(again))
			for range 2 {
				rc, err := r.GetBody()
				require.NoError(t, err)
				again, err = io.ReadAll(rc)
				require.NoError(t, err)
				require.Equal(t, body, string(again))
			}
		})
	}
}

func TestReadBodyOfNone(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		r := &http.Request{Body: body}
		got, err := openaireq.ReadBody(r, 10)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Equal(t, body, r.Body)
	}
}

// closer counts closings.
type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

// A body that is too long, or breaks, can still be forwarded as it was.
func TestReadBodyOverTheLimit(t *testing.T) {
	const body = "0123456789"
	for name, length := range map[string]int64{"length": 10, "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			from := &closer{Reader: strings.NewReader(body)}
			r := &http.Request{Body: from, ContentLength: length}
			_, err := openaireq.ReadBody(r, 9)
			var tooLarge *http.MaxBytesError
			require.ErrorAs(t, err, &tooLarge)
			require.EqualValues(t, 9, tooLarge.Limit)
			require.Equal(t, length, r.ContentLength)
			require.Nil(t, r.GetBody)
			again, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, body, string(again))
			require.Zero(t, from.closed)
			require.NoError(t, r.Body.Close())
			require.Equal(t, 1, from.closed)
		})
	}
	r := &http.Request{Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
	got, err := openaireq.ReadBody(r, 10)
	require.NoError(t, err)
	require.Equal(t, body, string(got))
}

func TestReadBodyThatBreaks(t *testing.T) {
	gone := errors.New("gone")
	r := &http.Request{Body: io.NopCloser(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(gone))), ContentLength: 10}
	_, err := openaireq.ReadBody(r, 100)
	require.ErrorIs(t, err, gone)
	again, err := io.ReadAll(r.Body)
	require.ErrorIs(t, err, gone)
	require.Equal(t, "abc", string(again))
}

func TestReadTakesTheSessionHeaderFirst(t *testing.T) {
	p := newParser(t, openaireq.Options{SessionHeader: "X-Session", SessionField: "prompt_cache_key", MaxBytes: 1000})
	var b openaireq.Body
	read := func(header, body string) (string, error) {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		if header != "" {
			r.Header.Set("X-Session", header)
		}
		err := p.Read(r, &b)
		return b.Request.Session, err
	}
	session, err := read("h", `{"prompt_cache_key":"f"}`)
	require.NoError(t, err)
	require.Equal(t, "h", session)
	require.Equal(t, openaireq.Chat, b.Kind)
	session, err = read("", `{"prompt_cache_key":"f"}`)
	require.NoError(t, err)
	require.Equal(t, "f", session)
	session, err = read("", `{}`)
	require.NoError(t, err)
	require.Empty(t, session)
	session, err = read("h", `{`)
	require.ErrorIs(t, err, openaireq.ErrSyntax)
	require.Equal(t, "h", session, "a host may route by it")
	_, err = read("", `{"x":"`+strings.Repeat("a", 1000)+`"}`)
	var tooLarge *http.MaxBytesError
	require.ErrorAs(t, err, &tooLarge)
	require.Zero(t, b.Request)
	require.Nil(t, b.Bytes())
}
