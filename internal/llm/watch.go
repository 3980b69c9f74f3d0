package llm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// DefaultIdleTimeout ends a call when the provider has sent no byte for so long. Providers send pings or comments every
// 10–15 s while a model thinks, so two minutes of silence mean a dead connection.
const DefaultIdleTimeout = 120 * time.Second

// maxErrorBody bounds what is read of an error response.
const maxErrorBody = 64 << 10

var errStalled = errors.New("no data for too long")

// exchange watches the one HTTP request of a call: it keeps what an error response said, and cancels a silent one.
type exchange struct {
	idle   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	alive  func() // called in the reader's goroutine whenever bytes arrived

	status      int // 0 until a response came
	header      http.Header
	errorBody   []byte // of a status of 300 or more, or of an answer that is no event stream
	eventStream bool
}

// watch starts the idle timer of a call. The returned context ends with errStalled as its cause when it runs out; the
// caller must call close.
func watch(ctx context.Context, idle time.Duration, alive func()) (context.Context, *exchange) {
	if idle <= 0 {
		idle = DefaultIdleTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	x := &exchange{idle: idle, cancel: cancel, alive: alive}
	x.timer = time.AfterFunc(idle, func() { cancel(errStalled) })
	return ctx, x
}

func (x *exchange) close() {
	x.timer.Stop()
	x.cancel(nil)
}

// do is the SDKs' middleware.
func (x *exchange) do(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		return resp, err
	}
	x.timer.Reset(x.idle)
	x.status, x.header = resp.StatusCode, resp.Header
	contentType := resp.Header.Get("Content-Type")
	x.eventStream = contentType == "" || strings.HasPrefix(strings.ToLower(contentType), "text/event-stream")
	if resp.StatusCode >= 300 || !x.eventStream {
		body, readErr := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		_ = resp.Body.Close()
		if readErr != nil && len(body) == 0 {
			return nil, readErr
		}
		x.errorBody = body
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, x: x}
	return resp, nil
}

type watchedBody struct {
	io.ReadCloser
	x *exchange
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.x.timer.Reset(b.x.idle)
		b.x.alive()
	}
	return n, err
}

// plainClient is the HTTP client for model calls. It follows no redirect: one call is one request, and a redirect to
// another host would take the key there. There is no overall time-out, since answers may stream for many minutes; the
// idle timer and the caller's context end a call.
func plainClient(base *http.Client) *http.Client {
	var c http.Client
	if base != nil {
		c = *base
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}
