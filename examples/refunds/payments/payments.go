// Package payments is a stand-in for a payments provider: an HTTP service with
// a log of its own, fsynced before it answers. The log is the truth about what
// happened to money; Daybook never writes it.
//
//	GET  /orders/{order}    what is known about an order
//	POST /refunds           refund; Idempotency-Key is honoured in mode keyed
//	GET  /refunds/{key}     whether the refund with that key happened (mode probe)
package payments

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"
)

// Refund is one effect: a line of the log.
type Refund struct {
	Time     time.Time `json:"time"`
	ID       string    `json:"id"`
	Key      string    `json:"key"`
	Order    string    `json:"order_id"`
	Amount   string    `json:"amount"`
	Currency string    `json:"currency"`
}

// Order is what the provider knows about an order.
type Order struct {
	Order    string `json:"order_id"`
	Customer string `json:"customer"`
	Paid     string `json:"paid"`
	Currency string `json:"currency"`
}

// Mode is what the provider can do for a caller that lost its answer.
type Mode string

// Modes.
const (
	Opaque Mode = "opaque" // nothing: every request is a refund
	Keyed  Mode = "keyed"  // the same Idempotency-Key is the same refund
	Probe  Mode = "probe"  // can be asked by key; a repeated request is another refund
)

// Moment is when, within a refund, a hook is called.
type Moment int

// Moments of a refund request.
const (
	BeforeLog Moment = iota + 1 // the request is read, nothing has happened
	AfterLog                    // the money is gone, nobody has been told
)

// Config of a [Service]. LogPath is required.
type Config struct {
	LogPath string
	Orders  []Order
	Mode    Mode // empty = Opaque
	// Addr to listen on; empty = a free port of 127.0.0.1.
	Addr string
	// Hook is called at each moment of the n-th refund request, counted from 1.
	// When it returns false the request is dropped there without an answer.
	Hook func(n int, m Moment) bool
	Now  func() time.Time
}

// Service is a running provider. Safe for concurrent use.
type Service struct {
	cfg    Config
	orders map[string]Order
	log    *os.File
	srv    *http.Server
	addr   string
	served chan struct{}

	mu    sync.Mutex
	n     int
	byKey map[string]Refund
	count int
}

// Start reads an existing log and serves until Close.
func Start(cfg Config) (*Service, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	s := &Service{cfg: cfg, orders: map[string]Order{}, byKey: map[string]Refund{}, served: make(chan struct{})}
	for _, o := range cfg.Orders {
		s.orders[o.Order] = o
	}
	past, err := ReadLog(cfg.LogPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, r := range past {
		s.byKey[r.Key] = r
		s.count++
	}
	if s.log, err = os.OpenFile(cfg.LogPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open payments log: %w", err)
	}
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for payments: %w", err), s.log.Close())
	}
	s.addr = l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{order}", s.order)
	mux.HandleFunc("POST /refunds", s.refund)
	mux.HandleFunc("GET /refunds/{key}", s.probe)
	s.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.srv.Serve(l) // returns at Close
	}()
	return s, nil
}

// URL is where the service answers.
func (s *Service) URL() string { return "http://" + s.addr }

// Close stops the service and closes the log.
func (s *Service) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.srv.Shutdown(ctx)
	<-s.served
	return errors.Join(err, s.log.Close())
}

var orderNumber = regexp.MustCompile(`^ORD-[0-9]{4}$`)

func (s *Service) order(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("order")
	if !orderNumber.MatchString(id) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "malformed order number: want ORD- and four digits"})
		return
	}
	o, ok := s.orders[id]
	if !ok {
		answer(w, http.StatusNotFound, map[string]string{"error": "no such order"})
		return
	}
	answer(w, http.StatusOK, o)
}

func (s *Service) refund(w http.ResponseWriter, r *http.Request) {
	var in Refund
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || !orderNumber.MatchString(in.Order) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "want order_id, amount and currency"})
		return
	}
	in.Key = r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if !s.hook(n, BeforeLog) {
		panic(http.ErrAbortHandler)
	}
	out, err := s.apply(in)
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	if !s.hook(n, AfterLog) {
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, out)
}

func (s *Service) hook(n int, m Moment) bool { return s.cfg.Hook == nil || s.cfg.Hook(n, m) }

// apply moves the money: a line in the log, on disk before anybody is told.
func (s *Service) apply(in Refund) (Refund, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, ok := s.byKey[in.Key]; ok && in.Key != "" && s.cfg.Mode == Keyed {
		return done, nil
	}
	s.count++
	in.Time, in.ID = s.cfg.Now().UTC(), fmt.Sprintf("re_%06d", s.count)
	line, err := json.Marshal(in)
	if err != nil {
		return Refund{}, err
	}
	if _, err := s.log.Write(append(line, '\n')); err != nil {
		return Refund{}, err
	}
	if err := s.log.Sync(); err != nil {
		return Refund{}, err
	}
	s.byKey[in.Key] = in
	return in, nil
}

func (s *Service) probe(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Mode != Probe {
		answer(w, http.StatusNotImplemented, map[string]string{"error": "this provider cannot be asked"})
		return
	}
	s.mu.Lock()
	re, ok := s.byKey[r.PathValue("key")]
	s.mu.Unlock()
	if !ok {
		answer(w, http.StatusNotFound, map[string]string{"error": "no refund with this key"})
		return
	}
	answer(w, http.StatusOK, re)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}

// ReadLog reads the effects from a provider's log. A last line without its end
// was never acknowledged and is left out.
func ReadLog(path string) ([]Refund, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read payments log: %w", err)
	}
	defer f.Close()
	var rs []Refund
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return rs, nil
		}
		var r Refund
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read payments log %s line %d: %w", path, n, err)
		}
		rs = append(rs, r)
	}
}

// Duplicates counts refunds beyond the first of each order.
func Duplicates(rs []Refund) int {
	seen, dups := map[string]bool{}, 0
	for _, r := range rs {
		if seen[r.Order] {
			dups++
		}
		seen[r.Order] = true
	}
	return dups
}
