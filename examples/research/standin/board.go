package standin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// Notice is a line of the board's record.
type Notice struct {
	Time time.Time `json:"time"`
	URL  string    `json:"url"`
	Key  string    `json:"key"`
	Name string    `json:"name"`
	Text string    `json:"text"`
}

// board recognises a notice that is sent twice by its key.
type board struct {
	log *os.File

	mu      sync.Mutex
	n       int
	notices map[string]Notice
}

// post pins a notice up.
func (w *World) post(rw http.ResponseWriter, r *http.Request) {
	var in struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<20)).Decode(&in); err != nil || key == "" || in.Name == "" {
		http.Error(rw, "want name and text, and an Idempotency-Key", http.StatusBadRequest)
		return
	}
	n, notice, err := w.board.pin(Notice{Time: time.Now().UTC(), Key: key, Name: in.Name, Text: in.Text})
	if err != nil {
		http.Error(rw, "the board is out of order", http.StatusInternalServerError)
		return
	}
	if w.cfg.Posted != nil && !w.cfg.Posted(n) {
		panic(http.ErrAbortHandler)
	}
	rw.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(rw).Encode(map[string]string{"url": notice.URL}) // the caller may be gone
}

// pin returns the notice that is on the board under the key, and how many
// requests there were.
func (b *board) pin(in Notice) (int, Notice, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	if there, ok := b.notices[in.Key]; ok {
		return b.n, there, nil
	}
	in.URL = fmt.Sprintf("https://board.portmerrow.example/%d/%s", len(b.notices)+1, in.Name)
	line, err := json.Marshal(in)
	if err != nil {
		return b.n, in, err
	}
	if _, err := b.log.Write(append(line, '\n')); err != nil {
		return b.n, in, err
	}
	if err := b.log.Sync(); err != nil {
		return b.n, in, err
	}
	if b.notices == nil {
		b.notices = map[string]Notice{}
	}
	b.notices[in.Key] = in
	return b.n, in, nil
}

// ReadBoard reads the record of a board.
func ReadBoard(path string) ([]Notice, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the record of the notice board: %w", err)
	}
	defer f.Close()
	var all []Notice
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		var n Notice
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return nil, fmt.Errorf("read the record of the notice board, line %d: %w", len(all)+1, err)
		}
		all = append(all, n)
	}
	return all, lines.Err()
}
