package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// Stdio serves a program's standard input and output until the input ends. What
// ends the connection ends the program.
func (s *Server) Stdio(in io.Reader, out io.Writer) {
	w := &lines{out: out}
	if s.Spawn {
		c := exec.Command("sleep", "3600")
		c.Stdout = os.Stdout // and holds the output open
		if err := c.Start(); err != nil {
			panic(err)
		}
		s.Note(Spawned, strconv.Itoa(c.Process.Pid))
	}
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			s.Note(Ended, "input")
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		s.handle(m, w)
	}
}

type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lines) send(m message) {
	m.JSONRPC = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	w.raw(string(b) + "\n")
}

func (w *lines) raw(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(w.out, text)
}

func (w *lines) drop() { os.Exit(3) }

func (w *lines) closed() <-chan struct{} { return nil }

// ServeHTTP serves streamable HTTP: a session, answers in JSON, and a stream for
// calls that say something before they answer. A GET is refused.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	if m.Method == "initialize" {
		s.session++
	}
	session := fmt.Sprintf("session-%d", s.session)
	s.mu.Unlock()
	if m.Method != "initialize" && r.Header.Get("Mcp-Session-Id") != session {
		s.mu.Lock()
		status, body := s.gone, s.goneBody
		s.mu.Unlock()
		if status == 0 {
			status = http.StatusNotFound
		}
		if body != "" {
			rw.Header().Set("Content-Type", "application/json")
		}
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, strings.ReplaceAll(body, "%s", string(m.ID)))
		return
	}
	if m.Method == "" && s.Ungrateful {
		s.Note(Answered, string(m.ID))
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	status, location := s.status, s.location
	s.mu.Unlock()
	if m.Method == "tools/call" && status != 0 {
		rw.Header().Set("Location", location)
		rw.WriteHeader(status)
		return
	}
	if m.Method != "initialize" && r.Header.Get("Mcp-Protocol-Version") == "" && m.Method != "notifications/initialized" {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	rw.Header().Set("Mcp-Session-Id", session)
	if m.ID == nil {
		s.handle(m, &exchange{rw: rw, r: r})
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	s.handle(m, &exchange{rw: rw, r: r})
}

// Forget makes the server know of no session any more.
func (s *Server) Forget() {
	s.mu.Lock()
	s.session++
	s.mu.Unlock()
}

// ForgetAs is Forget, told by an answer of that status and body, in which %s is
// the request's id.
func (s *Server) ForgetAs(status int, body string) {
	s.Forget()
	s.mu.Lock()
	s.gone, s.goneBody = status, body
	s.mu.Unlock()
}

// Redirect answers the next call with a redirect.
func (s *Server) Redirect(status int, location string) {
	s.mu.Lock()
	s.status, s.location = status, location
	s.mu.Unlock()
}

// Refuse answers the next call with 429.
func (s *Server) Refuse() { s.Redirect(http.StatusTooManyRequests, "") }

// Release lets the tool "slow" answer, this time and from then on.
func (s *Server) Release() { close(s.release()) }

func (s *Server) release() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released == nil {
		s.released = make(chan struct{})
	}
	return s.released
}

// exchange answers one POST.
type exchange struct {
	rw       http.ResponseWriter
	r        *http.Request
	streamed bool
}

func (w *exchange) send(m message) {
	m.JSONRPC = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	if m.Method != "" && !w.streamed {
		w.rw.Header().Set("Content-Type", "text/event-stream")
		w.streamed = true
	}
	if w.streamed {
		_, _ = fmt.Fprintf(w.rw, "data: %s\n\n", b)
		w.rw.(http.Flusher).Flush()
		return
	}
	w.rw.Header().Set("Content-Type", "application/json")
	_, _ = w.rw.Write(b)
}

func (w *exchange) raw(text string) {
	typ := "application/json"
	if strings.HasSuffix(text, "\n\n") { // as events end
		typ, w.streamed = "text/event-stream", true
	}
	w.rw.Header().Set("Content-Type", typ)
	_, _ = io.WriteString(w.rw, text)
}

func (w *exchange) drop() {
	c, _, err := w.rw.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = c.Close()
}

func (w *exchange) closed() <-chan struct{} { return w.r.Context().Done() }
