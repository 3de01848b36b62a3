package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Kind is what a provider can do for a caller that lost its answer; each is a
// tool of its own.
type Kind string

// Kinds.
const (
	Opaque Kind = "opaque" // nothing: every request is an effect
	Keyed  Kind = "keyed"  // the same key is the same effect
	Fenced Kind = "fenced" // a key that is there already is refused, and says so
	Probe  Kind = "probe"  // can be asked by key; a repeated request is another effect
)

// Kinds lists all of them.
var kinds = []Kind{Opaque, Keyed, Fenced, Probe}

// Effect is a line of the provider's log: something happened in the world.
type Effect struct {
	At    time.Time `json:"at"`
	Kind  Kind      `json:"kind"`
	Key   string    `json:"key"`
	Fence int       `json:"fence"`
	Item  string    `json:"item"`
}

// Bill is a line of the provider's invoice: a model call that costs money.
type Bill struct {
	At time.Time `json:"at"`
	// Attempt is what the caller said its attempt is: run, turn and number.
	Attempt string         `json:"attempt"`
	Input   int64          `json:"input"`
	Output  int64          `json:"output"`
	Pico    events.PicoUSD `json:"pico_usd"`
}

// Prices of the provider's model, per token.
const (
	picoPerInput  = 2_500_000
	picoPerOutput = 10_000_000
)

// provider is the outside world: it keeps two logs of its own, on disk before
// it answers, and it is not a reliable one.
type provider struct {
	srv    *http.Server
	url    string
	served chan struct{}

	mu      sync.Mutex
	rand    *rand.Rand
	calm    bool // no trouble of its own any more
	effects *os.File
	invoice *os.File
	byKey   map[string]Effect
	counts  struct{ dropped, failed, slow int }
}

func startProvider(dir string, seed uint64) (*provider, error) {
	p := &provider{
		rand: rand.New(rand.NewPCG(seed, 0x70726f76)), byKey: map[string]Effect{}, served: make(chan struct{}),
	}
	var err error
	if p.effects, err = os.OpenFile(effectsLog(dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if p.invoice, err = os.OpenFile(invoiceLog(dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, errors.Join(err, p.effects.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, p.effects.Close(), p.invoice.Close())
	}
	p.url = "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /look/{item}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]string{"item": r.PathValue("item"), "status": "open"})
	})
	mux.HandleFunc("POST /effects/{kind}", p.act)
	mux.HandleFunc("GET /effects/{key}", p.ask)
	mux.HandleFunc("POST /model", p.answer)
	p.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(p.served)
		_ = p.srv.Serve(l) // returns at close
	}()
	return p, nil
}

func (p *provider) close() error {
	err := p.srv.Close()
	<-p.served
	return errors.Join(err, p.effects.Close(), p.invoice.Close())
}

// settle ends the provider's own troubles: what comes now is answered.
func (p *provider) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = true
}

// trouble is what happens to one request besides what it asks for.
type trouble struct {
	wait       time.Duration // before it acts
	dropBefore bool
	dropAfter  bool // it acted, and nobody is told
	failAfter  bool // it acted, and says that it did not work
}

// maxWait is the longest that a request may lie around before it acts. It is
// far below deadline and grace of an attempt, as a provider's has to be.
const maxWait = 250 * time.Millisecond

func (p *provider) trouble() trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	var t trouble
	if p.calm {
		return t
	}
	t.wait = time.Duration(p.rand.Int64N(int64(10 * time.Millisecond)))
	switch n := p.rand.IntN(1000); {
	case n < 10:
		t.dropBefore = true
		p.counts.dropped++
	case n < 20:
		t.dropAfter = true
		p.counts.dropped++
	case n < 25:
		t.failAfter = true
		p.counts.failed++
	case n < 55:
		t.wait = time.Duration(p.rand.Int64N(int64(maxWait)))
		p.counts.slow++
	}
	return t
}

func (p *provider) act(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Item string `json:"item"`
	}
	kind := Kind(r.PathValue("kind"))
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || in.Item == "" {
		reply(w, http.StatusBadRequest, map[string]string{"error": "want an item"})
		return
	}
	fence, _ := strconv.Atoi(r.Header.Get("Fence")) // absent: 0
	t := p.trouble()
	wait(t.wait)
	if t.dropBefore {
		panic(http.ErrAbortHandler)
	}
	out, code, err := p.apply(Effect{Kind: kind, Key: r.Header.Get("Idempotency-Key"), Fence: fence, Item: in.Item})
	switch {
	case t.dropAfter:
		panic(http.ErrAbortHandler)
	case err != nil:
		reply(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
	case t.failAfter:
		reply(w, http.StatusBadGateway, map[string]string{"error": "upstream did not answer"})
	default:
		reply(w, code, out)
	}
}

// apply makes the effect: a line in the log, on disk before anybody is told.
func (p *provider) apply(e Effect) (Effect, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done, ok := p.byKey[e.Key]; ok && e.Key != "" {
		switch e.Kind {
		case Keyed:
			return done, http.StatusOK, nil
		case Fenced:
			return done, http.StatusConflict, nil
		}
	}
	e.At = time.Now().UTC()
	if err := appendLine(p.effects, e); err != nil {
		return Effect{}, 0, err
	}
	p.byKey[e.Key] = e
	return e, http.StatusOK, nil
}

func (p *provider) ask(w http.ResponseWriter, r *http.Request) {
	t := p.trouble()
	wait(t.wait)
	if t.dropBefore || t.dropAfter {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	e, ok := p.byKey[r.PathValue("key")]
	p.mu.Unlock()
	if !ok {
		reply(w, http.StatusNotFound, map[string]string{"error": "nothing with this key"})
		return
	}
	reply(w, http.StatusOK, e)
}

// answer bills a model call. What it says is the caller's own business.
func (p *provider) answer(w http.ResponseWriter, r *http.Request) {
	var in Bill
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || in.Attempt == "" {
		reply(w, http.StatusBadRequest, map[string]string{"error": "want an attempt"})
		return
	}
	t := p.trouble()
	wait(t.wait)
	if t.dropBefore {
		panic(http.ErrAbortHandler)
	}
	in.At, in.Pico = time.Now().UTC(), events.PicoUSD(in.Input*picoPerInput+in.Output*picoPerOutput)
	p.mu.Lock()
	err := appendLine(p.invoice, in)
	p.mu.Unlock()
	switch {
	case err != nil:
		reply(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
	case t.dropAfter, t.failAfter:
		panic(http.ErrAbortHandler)
	default:
		reply(w, http.StatusOK, in)
	}
}

func appendLine(f *os.File, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}

// readLines reads a log. A last line without its end was never acknowledged.
func readLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []T
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return all, nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, n, err)
		}
		all = append(all, v)
	}
}
