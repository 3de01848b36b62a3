// Package modelserver is a model provider for tests: an HTTP server that speaks
// Chat Completions and Anthropic's Messages in front of any model, such as the
// script of an example. What an example does offline it does over the wire then,
// by the same answers. It refuses what the real services refuse: a missing key, a
// call that nobody answered, an answer to no call.
package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/model"
)

// Name is what agents call the model of [Server.Config].
const Name = "wire-model"

// Formats of the wire, as --model-config calls them.
const (
	Chat     = "openai/chat"
	Messages = "anthropic/messages"
)

// Key is what the server wants to be shown. No rule takes it for a secret unless
// it is registered as one.
const Key = "plums-and-kelp-by-the-pier"

// Server is a provider.
type Server struct {
	URL string

	model model.Model

	mu      sync.Mutex
	answers int
	refused []string
}

// Start starts a server whose answers are those of m. It is closed with the test,
// which fails if the server had to refuse a request.
func Start(t testing.TB, m model.Model) *Server {
	t.Helper()
	s := &Server{model: m}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serve(chat{}))
	mux.HandleFunc("POST /v1/messages", s.serve(messages{}))
	h := httptest.NewServer(mux)
	s.URL = h.URL
	t.Cleanup(func() {
		h.Close()
		if r := s.Refused(); len(r) > 0 {
			t.Errorf("the model server refused %d requests: %s", len(r), strings.Join(r, "; "))
		}
	})
	return s
}

// Config writes what --model-config and --secret take to a new directory: one
// model, [Name], over the format.
func (s *Server) Config(t testing.TB, format string) (file, secret string) {
	t.Helper()
	dir := t.TempDir()
	file, key := filepath.Join(dir, "models.yaml"), filepath.Join(dir, "key")
	base := s.URL
	if format == Chat {
		base += "/v1"
	}
	text := fmt.Sprintf("models:\n  - {name: %s, api: %s, base_url: %q, key: secret://wire}\n", Name, format, base)
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(key, []byte(Key+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file, "wire=" + key
}

// Answers is how many requests were answered.
func (s *Server) Answers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers
}

// Refused says why requests were refused.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// format is a wire format.
type format interface {
	key(h http.Header) string
	read(body []byte) (model.Request, error)
	write(send func(v any), r model.Response)
	refuse(text string) any
}

func (s *Server) serve(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, err error) {
			s.mu.Lock()
			s.refused = append(s.refused, err.Error())
			s.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(f.refuse(err.Error())) // whoever asked has gone
		}
		if f.key(r.Header) != Key {
			refuse(http.StatusUnauthorized, errors.New("wrong key"))
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // whoever asked has gone, or was killed
		}
		req, err := f.read(body)
		if err == nil {
			err = complete(req)
		}
		if err != nil {
			refuse(http.StatusBadRequest, err)
			return
		}
		resp, err := s.model.Call(r.Context(), req)
		if err != nil {
			if r.Context().Err() == nil {
				refuse(http.StatusBadRequest, err)
			}
			return
		}
		s.mu.Lock()
		s.answers++
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		f.write(func(v any) {
			line, ok := v.(string)
			if !ok {
				b, _ := json.Marshal(v) // of text and numbers
				line = string(b)
			}
			_, _ = io.WriteString(w, "data: "+line+"\n\n")
			w.(http.Flusher).Flush()
		}, resp)
	}
}

// complete refuses a conversation that a provider would: each call has one
// answer, at once behind it.
func complete(r model.Request) error {
	offered := map[string]bool{}
	for _, t := range r.Tools {
		if offered[t.Name] = true; !json.Valid(t.Schema) {
			return fmt.Errorf("the tool %s has no schema", t.Name)
		}
	}
	open := map[string]bool{}
	for i, m := range r.Messages {
		if len(open) > 0 && m.Role != model.Tool {
			return fmt.Errorf("message %d: %d calls have no answer", i, len(open))
		}
		for _, c := range m.Calls {
			if open[c.ID] || c.ID == "" {
				return fmt.Errorf("message %d: there are two calls %q", i, c.ID)
			}
			if open[c.ID] = true; len(offered) > 0 && !offered[c.Name] {
				return fmt.Errorf("message %d: there is no tool %s", i, c.Name)
			}
		}
		for _, res := range m.Results {
			if !open[res.CallID] {
				return fmt.Errorf("message %d answers %q, which is no open call", i, res.CallID)
			}
			delete(open, res.CallID)
		}
	}
	if n := len(r.Messages); n == 0 || r.Messages[n-1].Role == model.Assistant || len(open) > 0 {
		return errors.New("the last message is not the user's")
	}
	return nil
}

// result is what a tool's message says: whether a call failed or was answered
// with an earlier result stands in its first words alone, in Chat Completions.
func result(id, name, text string, failed bool) model.Result {
	return model.Result{
		CallID: id, Name: name, Text: text, Repeated: strings.HasPrefix(text, "(earlier result"),
		Failed: failed || strings.HasPrefix(text, "failed: ") || strings.HasPrefix(text, "not run"),
	}
}
