// Package jevtest runs a decision model's server for tests: OpenRouter's Decisions API, and chat completions with
// log-probabilities.
package jevtest

import (
	"encoding/json"
	"io"
	"math"
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

// Request is one request as the server received it.
type Request struct {
	Number int // from 1, in order of arrival
	Path   string
	Header http.Header
	Body   []byte
	State  string // what is to be judged
}

// Reply is what a script answers.
type Reply struct {
	Probability float64
	Status      int         // when set, the response has this status
	Header      http.Header // more headers
	Body        string      // when set, the response's body
	Release     <-chan struct{}
}

// Script decides the reply. It may be called concurrently.
type Script func(Request) Reply

// Say is a script that gives one probability to everything.
func Say(p float64) Script { return func(Request) Reply { return Reply{Probability: p} } }

// Server answers decisions.
type Server struct {
	URL string
	// Chat serves what is neither a decision nor a chat completion with log-probabilities; nil refuses it.
	Chat http.Handler

	script   Script
	closed   chan struct{}
	mu       sync.Mutex
	requests []Request
}

// NewServer starts a server on the loopback address and ends it with the test.
func NewServer(t TB, script Script) *Server {
	t.Helper()
	s := &Server{script: script, closed: make(chan struct{})}
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		close(s.closed)
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

// OpenRouterURL is the base URL in OpenRouter's form.
func (s *Server) OpenRouterURL() string { return s.URL + "/api/v1" }

// OpenAIURL is the base URL for OpenAI's SDK.
func (s *Server) OpenAIURL() string { return s.URL + "/v1" }

// Requests are all requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	var asked struct {
		Model    string
		State    string
		Stream   bool
		Logprobs bool
		Messages []struct{ Content string }
		// Questions of the Decisions API.
		Questions map[string]struct{ Type string }
	}
	wellFormed := json.Unmarshal(body, &asked) == nil
	decision := r.URL.Path == "/api/alpha/decisions"
	switch {
	case decision:
	case r.URL.Path == "/v1/chat/completions" && asked.Logprobs && !asked.Stream && len(asked.Messages) == 2:
		asked.State = asked.Messages[1].Content
	case s.Chat != nil:
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		s.Chat.ServeHTTP(w, r)
		return
	default:
		refuse(w, http.StatusNotFound, "no such endpoint")
		return
	}
	s.mu.Lock()
	seen := Request{Number: len(s.requests) + 1, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, State: asked.State}
	s.requests = append(s.requests, seen)
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") == "":
		refuse(w, http.StatusUnauthorized, "No auth credentials found")
		return
	case !wellFormed || asked.Model == "" || asked.State == "" || decision && len(asked.Questions) != 1:
		refuse(w, http.StatusBadRequest, "the request is not well-formed")
		return
	}
	reply := s.script(seen)
	if reply.Release != nil {
		select {
		case <-reply.Release:
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
	for key, values := range reply.Header {
		w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	switch {
	case reply.Body != "":
		w.Header().Set("Content-Type", "application/json")
		if reply.Status != 0 {
			w.WriteHeader(reply.Status)
		}
		_, _ = io.WriteString(w, reply.Body)
	case reply.Status != 0:
		refuse(w, reply.Status, http.StatusText(reply.Status))
	case decision:
		answers := map[string]any{}
		for name := range asked.Questions {
			answers[name] = map[string]any{"type": "noul", "noul": reply.Probability}
		}
		write(w, map[string]any{
			"answers": answers, "model": strings.TrimPrefix(asked.Model, "~"),
			"usage": map[string]any{"input_tokens": 100, "output_tokens": 1},
		})
	default:
		write(w, completion(asked.Model, reply.Probability))
	}
}

// completion is an answer whose first token breaks the line and whose second is yes or no.
func completion(model string, p float64) map[string]any {
	token := func(text string, p float64) map[string]any {
		return map[string]any{"token": text, "logprob": math.Log(max(p, 1e-12)), "bytes": nil}
	}
	word := token("yes", 0.9*p)
	word["top_logprobs"] = []any{token("Yes", 0.6*p), token("yes", 0.3*p), token(" No", 0.9*(1-p)), token("maybe", 0.1)}
	lineBreak := token("\n", 1)
	lineBreak["top_logprobs"] = []any{token("\n", 1)}
	return map[string]any{
		"id": "c", "object": "chat.completion", "created": 1, "model": model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "length", "message": map[string]any{"role": "assistant", "content": "\nyes", "refusal": nil},
			"logprobs": map[string]any{"content": []any{lineBreak, word}, "refusal": nil},
		}},
		"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102},
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "code": status}})
}

func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that left has no use for it
}
