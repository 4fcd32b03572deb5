package httptransport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"

	"github.com/warmroute/warmroute/picker"
)

// unpicked is the reply to a request for which a pick failed.
func unpicked(r *http.Request, err error) *http.Response {
	if errors.Is(err, picker.ErrOverloaded) {
		return refusal(r, http.StatusTooManyRequests, "all engines are busy")
	}
	return refusal(r, http.StatusServiceUnavailable, "no engine is available")
}

// refusal is a reply that no backend gave.
func refusal(r *http.Request, status int, message string) *http.Response {
	body, header := errorJSON(status, message)
	return &http.Response{
		Status:     strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// ErrorHandler is for httputil.ReverseProxy: it writes an error of RoundTrip as OpenAI's
// JSON, with the status 504 for a time-out and 502 for others. It says nothing of the
// backends to the client; a host that wants errors logged wraps it.
func ErrorHandler(w http.ResponseWriter, _ *http.Request, err error) {
	status := http.StatusBadGateway
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	body, header := errorJSON(status, "the engine did not answer")
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// errorJSON returns an error as OpenAI spells them.
func errorJSON(status int, message string) ([]byte, http.Header) {
	type apiError struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	e := apiError{Message: message, Type: "server_error", Code: "bad_gateway"}
	header := http.Header{"Content-Type": {"application/json"}}
	switch status {
	case http.StatusRequestEntityTooLarge:
		e.Type, e.Code = "invalid_request_error", "request_too_large"
	case http.StatusTooManyRequests:
		e.Type, e.Code = "rate_limit_error", "overloaded"
		header.Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		e.Code = "no_backend"
		header.Set("Retry-After", "1")
	case http.StatusGatewayTimeout:
		e.Code = "gateway_timeout"
	}
	body, _ := json.Marshal(map[string]any{"error": e}) // strings cannot fail
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return body, header
}
