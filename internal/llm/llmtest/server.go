// Package llmtest runs model servers for tests: they speak the protocols of Anthropic and OpenAI on this machine, refuse
// what the real ones refuse, and answer what a script says.
package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// TB is what NewServer needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
}

// Script decides the reply to a request that the server found valid. It may be called concurrently.
type Script func(Request) Reply

// Server answers model calls. It is an http.Handler.
type Server struct {
	// URL is the server's address without a path; "" for a Server that NewServer did not start.
	URL string
	// Key, when set before the first request, is the only API key the server takes.
	Key string
	// Remember, when set before the first request, is how many of the newest requests keep their bodies, headers and
	// messages, for tests that make more requests than fit into memory; 0 = all.
	Remember int

	script Script
	closed chan struct{}

	mu       sync.Mutex
	requests []*Request
	changed  chan struct{} // closed and renewed whenever a request arrives or ends
}

// New makes a server that is served by the caller.
func New(script Script) *Server {
	return &Server{script: script, closed: make(chan struct{}), changed: make(chan struct{})}
}

// NewServer starts a server on the loopback address and ends it with the test.
func NewServer(t TB, script Script) *Server {
	t.Helper()
	s := New(script)
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		s.Close()
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

// Close ends the replies that wait or stall.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
}

// AnthropicURL is the base URL for Anthropic's SDK.
func (s *Server) AnthropicURL() string { return s.URL }

// OpenAIURL is the base URL for OpenAI's SDK, both dialects.
func (s *Server) OpenAIURL() string { return s.URL + "/v1" }

// OpenRouterURL is the base URL in OpenRouter's form.
func (s *Server) OpenRouterURL() string { return s.URL + "/api/v1" }

// Requests are all requests so far, refused ones included, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Wait waits until the requests satisfy ok, and returns them.
func (s *Server) Wait(ctx context.Context, ok func([]Request) bool) ([]Request, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if requests := s.Requests(); ok(requests) {
			return requests, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for requests: %w", context.Cause(ctx))
		}
	}
}

// update changes the record under the lock and wakes those who wait.
func (s *Server) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var d Dialect
	switch path := strings.TrimPrefix(r.URL.Path, "/api"); {
	case r.Method != http.MethodPost:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case path == "/v1/messages":
		d = Anthropic
	case path == "/v1/chat/completions":
		d = Chat
	case path == "/v1/responses":
		d = Responses
	default:
		writeError(w, Chat, &Violation{Status: 404, Kind: "invalid_request_error",
			Message: fmt.Sprintf("Invalid URL (POST %s)", r.URL.Path)}, nil)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20))
	if err != nil {
		writeError(w, d, &Violation{Status: 413, Kind: "request_too_large", Message: "Request exceeds the maximum size"}, nil)
		return
	}
	violation := s.headers(d, r)
	if violation == nil {
		violation = validate(d, body)
	}
	record, parseErr := parse(d, body)
	if parseErr != nil && violation == nil {
		violation = invalid("The request body is not valid JSON: %s", parseErr)
	}
	record.Path, record.Header = r.URL.Path, r.Header.Clone()
	if violation != nil {
		record.Refused = violation.Error()
	}
	s.update(func() {
		record.Number = len(s.requests) + 1
		s.requests = append(s.requests, &record)
		if old := len(s.requests) - 1 - s.Remember; s.Remember > 0 && old >= 0 {
			r := s.requests[old]
			s.requests[old] = &Request{Number: r.Number, Dialect: r.Dialect, Path: r.Path, Model: r.Model, Refused: r.Refused, Canceled: r.Canceled}
		}
	})
	if violation != nil {
		writeError(w, d, violation, nil)
		return
	}
	s.mu.Lock()
	seen := record
	s.mu.Unlock()
	reply := s.script(seen)
	out := &writer{w: w, r: r, server: s, between: reply.Between}
	defer func() {
		// Also when the reply ends by aborting the connection, which is a panic for net/http.
		s.update(func() { record.Canceled = out.canceled })
	}()
	out.reply(d, seen, reply)
}

func (s *Server) headers(d Dialect, r *http.Request) *Violation {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if d == Anthropic {
		if key == "" {
			key = r.Header.Get("X-Api-Key") // what the API took before version 2026-10-21, and still does
		}
		if key == "" {
			return &Violation{Status: 401, Kind: "authentication_error", Message: "an API key is required"}
		}
		if r.Header.Get("Anthropic-Version") == "" {
			return invalid("anthropic-version: header is required")
		}
	}
	if s.Key != "" && key != s.Key {
		return &Violation{Status: 401, Kind: map[bool]string{true: "authentication_error", false: "invalid_api_key"}[d == Anthropic],
			Message: "Incorrect API key provided: " + key + "."}
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return invalid("content-type: must be application/json")
	}
	return nil
}

// writeError answers with an error in the dialect's shape.
func writeError(w http.ResponseWriter, d Dialect, v *Violation, header http.Header) {
	for key, values := range header {
		w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(v.Status)
	_ = json.NewEncoder(w).Encode(errorBody(d, v)) // a client that left has no use for it
}

func errorBody(d Dialect, v *Violation) any {
	if d == Anthropic {
		return map[string]any{"type": "error", "error": map[string]any{"type": v.Kind, "message": v.Message}, "request_id": "req_test"}
	}
	var code any
	kind := v.Kind
	if kind != "invalid_request_error" && kind != "server_error" {
		code, kind = v.Kind, "invalid_request_error"
	}
	return map[string]any{"error": map[string]any{"message": v.Message, "type": kind, "param": nil, "code": code}}
}
