//go:build daybook_faults

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/examples/refunds/payments"
)

// Recovery kinds, as --payments-recovery names them, and fenced.
const (
	opaque = "opaque"
	keyed  = "keyed"
	fenced = "fenced"
	probe  = "probe"
)

// request is a refund request as the provider got it.
type request struct {
	N     int // from 1
	Key   string
	Fence int
	Order string
	At    time.Time
}

// provider moves the money. It speaks the protocol of the example's payments
// service and keeps a log of effects of its own, fsynced before it answers.
type provider struct {
	mode string
	path string
	srv  *httptest.Server

	mu  sync.Mutex
	log *os.File
	// known is asked when a request comes in, before anything happens: whether
	// the ledger knows the attempt.
	known    func(key string) error
	before   func(request) // the request is read, nothing has happened
	after    func(request) // the money is gone, nobody has been told
	delay    time.Duration // how long it takes
	requests []request
	byKey    map[string]payments.Refund
	fences   map[string]int
	strange  []string // what must not be
	probes   int
	lost     string // the order that it has no answer about
}

func newProvider(t testing.TB, mode, path string) *provider {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{mode: mode, path: path, log: f, byKey: map[string]payments.Refund{}, fences: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		var lost string
		p.set(func(p *provider) { lost = p.lost })
		if r.PathValue("order") == lost {
			reply(w, http.StatusInternalServerError, "out of order")
			return
		}
		reply(w, http.StatusOK, payments.Order{Order: r.PathValue("order"), Customer: "Ana Petrova", Paid: "49.90", Currency: "EUR"})
	})
	mux.HandleFunc("POST /refunds", p.refund)
	mux.HandleFunc("GET /refunds/{key}", p.ask)
	p.srv = httptest.NewServer(mux)
	t.Cleanup(func() {
		p.srv.CloseClientConnections()
		p.srv.Close()
		_ = f.Close()
	})
	return p
}

func (p *provider) set(f func(p *provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *provider) refund(w http.ResponseWriter, r *http.Request) {
	var in payments.Refund
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		reply(w, http.StatusBadRequest, err.Error())
		return
	}
	in.Key = r.Header.Get("Idempotency-Key")
	fence, _ := strconv.Atoi(r.Header.Get("Fence")) // absent: 0
	p.mu.Lock()
	req := request{N: len(p.requests) + 1, Key: in.Key, Fence: fence, Order: in.Order, At: time.Now()}
	p.requests = append(p.requests, req)
	before, after, delay, known := p.before, p.after, p.delay, p.known
	p.mu.Unlock()
	if known != nil {
		if err := known(in.Key); err != nil {
			p.set(func(p *provider) {
				p.strange = append(p.strange, fmt.Sprintf("request %d with key %.16s: %v", req.N, req.Key, err))
			})
		}
	}
	if before != nil {
		before(req)
	}
	pause(delay)
	out, code, err := p.apply(in, fence)
	if err != nil {
		reply(w, http.StatusInternalServerError, err.Error())
		return
	}
	if after != nil {
		after(req)
	}
	reply(w, code, out)
}

// pause is how long the provider takes.
func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// apply moves the money.
func (p *provider) apply(in payments.Refund, fence int) (payments.Refund, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, ok := p.byKey[in.Key]
	switch {
	case ok && p.mode == keyed:
		return done, http.StatusOK, nil
	case ok && p.mode == fenced:
		return done, http.StatusConflict, nil
	case p.mode == fenced && fence < p.fences[in.Key]:
		return in, http.StatusPreconditionFailed, nil
	case p.mode == fenced && fence == 0:
		p.strange = append(p.strange, "a request without a fence")
	}
	p.fences[in.Key] = fence
	in.Time, in.ID = time.Now().UTC(), fmt.Sprintf("re_%06d", len(p.byKey)+1)
	line, err := json.Marshal(in)
	if err != nil {
		return in, 0, err
	}
	if _, err := p.log.Write(append(line, '\n')); err != nil {
		return in, 0, err
	}
	if err := p.log.Sync(); err != nil {
		return in, 0, err
	}
	p.byKey[in.Key] = in
	return in, http.StatusOK, nil
}

func (p *provider) ask(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes++
	if p.mode != probe {
		p.strange = append(p.strange, "asked, although it cannot be asked")
		reply(w, http.StatusNotImplemented, "cannot be asked")
		return
	}
	re, ok := p.byKey[r.PathValue("key")]
	if !ok {
		reply(w, http.StatusNotFound, "no refund with this key")
		return
	}
	reply(w, http.StatusOK, re)
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}

// effects reads the provider's own log.
func (p *provider) effects(t testing.TB) []payments.Refund {
	t.Helper()
	f, err := os.Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rs []payments.Refund
	in := bufio.NewScanner(f)
	for in.Scan() {
		var r payments.Refund
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatalf("provider's log: %v", err)
		}
		rs = append(rs, r)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return rs
}

// once fails the test if an order or a key was refunded twice, or anything
// happened that the provider must never see. It returns how many refunds there are.
func (p *provider) once(t testing.TB) int {
	t.Helper()
	orders, keys := map[string]int{}, map[string]int{}
	rs := p.effects(t)
	for _, r := range rs {
		orders[r.Order]++
		keys[r.Key]++
	}
	for o, n := range orders {
		if n > 1 {
			t.Errorf("order %s was refunded %d times", o, n)
		}
	}
	for k, n := range keys {
		if n > 1 || k == "" {
			t.Errorf("key %q has %d effects", k, n)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.strange) > 0 {
		t.Errorf("the provider saw:\n%s", strings.Join(p.strange, "\n"))
	}
	return len(rs)
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}
