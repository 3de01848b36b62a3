// Package standin is an internet on this machine, as far as the research
// example needs one: search services that answer in the shapes of the real
// ones, the pages that they lead to, and a notice board to publish on. What they
// say is invented; no such harbour exists.
//
//	/searxng/search               a SearXNG, JSON switched on
//	/openalex/works               OpenAlex; wants a key, says what a search cost
//	/semanticscholar/graph/v1/…   Semantic Scholar
//	/wikidata/w/api.php           Wikidata
//	/board                        POST, under an Idempotency-Key
//
// The pages are served by another port, over TLS, whatever name is asked for:
// see [Web].
package standin

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

//go:embed data
var data embed.FS

// Config of a [World]. Both paths and the key are required.
type Config struct {
	// BoardLog is the notice board's own record, a line for each notice, on disk
	// before anybody is told: the truth about what was published.
	BoardLog string
	// Key is what OpenAlex wants to see.
	Key string
	// Leak puts the key into what OpenAlex says, as a careless service would, and
	// into what Semantic Scholar says, as if it had got about: a test looks for it
	// everywhere.
	Leak bool
	// Posted is called once a notice is on the board and nobody has been told; the
	// n-th request, from 1. When it returns false the request is dropped there.
	Posted func(n int) bool
}

// World is what runs. Safe for concurrent use.
type World struct {
	cfg     Config
	ca      []byte
	servers []*http.Server
	addrs   []string // of the services, of the pages
	done    sync.WaitGroup
	board   board

	mu    sync.Mutex
	asked map[string]int
}

// Start serves on free ports of 127.0.0.1 until Close.
func Start(cfg Config) (_ *World, err error) {
	w := &World{cfg: cfg, asked: map[string]int{}}
	if w.board.log, err = os.OpenFile(cfg.BoardLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open the record of the notice board: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /searxng/search", w.counted("searxng", searxng))
	mux.HandleFunc("GET /openalex/works", w.counted("openalex", w.openAlex))
	mux.HandleFunc("GET /semanticscholar/graph/v1/paper/search", w.counted("semantic_scholar", w.semanticScholar))
	mux.HandleFunc("GET /wikidata/w/api.php", w.counted("wikidata", wikidata))
	mux.HandleFunc("POST /board", w.counted("board", w.post))
	if err := w.serve(mux, nil); err != nil {
		return nil, err
	}
	ca, cert, err := certificates(hosts())
	if err != nil {
		return nil, err
	}
	w.ca = ca
	return w, w.serve(w.counted("pages", page), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
}

func (w *World) serve(h http.Handler, secure *tls.Config) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the stand-in services: %w", err)
	}
	w.addrs = append(w.addrs, l.Addr().String())
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	// A killed worker breaks connections off; that is no news.
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	w.servers = append(w.servers, srv)
	w.done.Go(func() { _ = srv.Serve(l) }) // returns at Close
	return nil
}

// Close ends all of it.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Shutdown(ctx))
	}
	w.done.Wait()
	return errors.Join(append(errs, w.board.log.Close())...)
}

// URL is where the services are.
func (w *World) URL() string { return "http://" + w.addrs[0] }

// Web says how to reach the pages.
func (w *World) Web() Web { return Web{Addr: w.addrs[1], CA: string(w.ca)} }

// Asked says how often each was asked: searxng, openalex, semantic_scholar,
// wikidata, pages and board.
func (w *World) Asked() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for k, v := range w.asked {
		n[k] = v
	}
	return n
}

// counted counts the requests to a service.
func (w *World) counted(name string, h http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked[name]++
		w.mu.Unlock()
		h(rw, r)
	}
}
