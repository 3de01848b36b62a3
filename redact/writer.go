package redact

import (
	"errors"
	"io"
	"strings"
	"sync"
)

const (
	// maxHeld bounds what a Writer holds back. A secret whose form is longer
	// can be missed if it is also split.
	maxHeld = 128 << 10
	// heldTail stays when a line without end has filled the buffer.
	heldTail = 16 << 10
)

var errClosed = errors.New("redact: write after close")

// Writer returns a writer that passes redacted text on to w, for stderr and
// crash output. It finds secrets that are split over writes: it holds back the
// line that has not ended yet, and earlier lines too while a secret or a
// private key may have begun in them, 128 KiB at most.
//
// The result also has the methods Flush() error, which writes what is held
// back, and Close() error, which does so for good; neither closes w. It is
// safe for concurrent use. After an error of w every call returns that error.
//
// A line is held back for a secret that began in it only if at least 3 bytes
// of the secret stand in it.
func (r *Redactor) Writer(w io.Writer) io.Writer {
	b := &buffer{s: r.state(), w: w}
	return &writer{func() *buffer { return b }}
}

// writer hides the buffer, which holds what is not redacted yet, from fmt.
type writer struct{ buffer func() *buffer }

// Write takes all of p, whatever of it is already passed on.
func (w *writer) Write(p []byte) (int, error) { return w.buffer().write(p) }

// Flush writes what is held back. What follows counts as a new text.
func (w *writer) Flush() error { return w.buffer().flush() }

// Close is Flush; later calls of Write fail.
func (w *writer) Close() error { return w.buffer().close() }

type buffer struct {
	s *state
	w io.Writer

	mu   sync.Mutex
	held []byte
	err  error
}

func (w *buffer) write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.held = append(w.held, p...)
	if len(w.held) <= maxHeld && !strings.Contains(string(p), "\n") {
		return len(p), nil
	}
	m := w.s.matcher()
	text := string(w.held)
	cut := safeCut(m, text)
	if len(text)-cut > maxHeld {
		cut = m.uncut(text, len(text)-heldTail)
	}
	w.pass(m, cut)
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// safeCut returns the end of what can be passed on: whole lines, none of which
// a secret or private key may have begun in and not ended.
func safeCut(m *matcher, text string) int {
	cut := strings.LastIndexByte(text, '\n') + 1
	f := m.find(text)
	cut = min(cut, f.pending)
	for _, s := range f.spans {
		if s.start < cut && cut < s.end {
			cut = s.start
		}
	}
	cut = strings.LastIndexByte(text[:cut], '\n') + 1
	if i := strings.LastIndex(text[:cut], "-----BEGIN "); i >= 0 && !strings.Contains(text[i:cut], "-----END ") {
		cut = strings.LastIndexByte(text[:i], '\n') + 1
	}
	return cut
}

// uncut moves cut to the front of a secret that it would divide.
func (m *matcher) uncut(text string, cut int) int {
	spans := m.find(text).spans
	for _, s := range join(spans) {
		if s.start < cut && cut < s.end {
			return s.start
		}
	}
	return cut
}

// pass redacts the first n held bytes and writes them.
func (w *buffer) pass(m *matcher, n int) {
	if n == 0 || w.err != nil {
		return
	}
	_, w.err = io.WriteString(w.w, m.lines(string(w.held[:n])))
	w.held = append(w.held[:0], w.held[n:]...)
}

// lines redacts text in which each line may be a JSON document of its own.
func (m *matcher) lines(text string) string {
	// Secrets first: one may reach over a line break.
	text = m.secretsIn(text)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if body := strings.TrimRight(line, "\r\n"); looksLikeJSON(body) {
			line = m.nested(body, textOptions{}) + line[len(body):]
		}
		b.WriteString(line)
	}
	return m.text(b.String(), textOptions{depth: maxNested - 1})
}

func (w *buffer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass(w.s.matcher(), len(w.held))
	return w.err
}

func (w *buffer) close() error {
	err := w.flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = errClosed
	}
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}
