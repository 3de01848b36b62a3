// Package apitest is an API on loopback for tests of tools that ask one.
package apitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Service answers every request alike, and keeps what it was asked. Safe for
// concurrent use.
type Service struct {
	URL string

	mu     sync.Mutex
	seen   []*http.Request
	bodies []string
}

// New returns a service that answers with status and body, and with 429 asks to
// wait 9 seconds. It ends with tb.
func New(tb testing.TB, status int, body string) *Service {
	tb.Helper()
	s := &Service{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			tb.Errorf("read the request: %v", err)
		}
		s.mu.Lock()
		s.seen, s.bodies = append(s.seen, r), append(s.bodies, string(b))
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "9")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	tb.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Seen returns the requests so far; their bodies have been read.
func (s *Service) Seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Bodies returns the bodies of the requests so far.
func (s *Service) Bodies() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}
