// Package wiretest is a server for tests of model clients: it speaks whatever
// wire format it is given, its faults included.
package wiretest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Server answers each request with the next of its replies, the last one for
// ever, and keeps the requests.
type Server struct {
	*httptest.Server
	replies []http.HandlerFunc

	mu       sync.Mutex
	requests []Request
}

// Request is one that came.
type Request struct {
	Path   string
	Header http.Header
	Bytes  []byte
	Body   map[string]any
}

// Serve starts a server, which is closed with the test.
func Serve(t testing.TB, replies ...http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{replies: replies}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		q := Request{Path: r.URL.Path, Header: r.Header.Clone(), Bytes: b}
		_ = json.Unmarshal(b, &q.Body)
		s.mu.Lock()
		s.requests = append(s.requests, q)
		reply := s.replies[min(len(s.requests), len(s.replies))-1]
		s.mu.Unlock()
		reply(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Requests returns what came so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Transport returns a transport that leaves no connection behind the test.
func Transport(t testing.TB) http.RoundTripper {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// SSE streams events, one data line each, flushed one by one.
func SSE(datas ...string) http.HandlerFunc {
	lines := make([]string, 0, len(datas))
	for _, d := range datas {
		lines = append(lines, "data: "+d+"\n\n")
	}
	return Raw("text/event-stream", lines...)
}

// Raw writes pieces as they are, flushed one by one.
func Raw(kind string, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for _, p := range pieces {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

// Cut streams events and then drops the connection.
func Cut(datas ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		SSE(datas...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

// Refuse answers with a status, a body, and headers in pairs.
func Refuse(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}
