package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/runtime/system"
)

const healthUsage = "serve /livez, /readyz and /metrics (Prometheus) on this address, such as :8080; empty = not (DAYBOOK_HEALTH)"

// addHealth adds the flag that health serves.
func (a *app) addHealth(f *pflag.FlagSet) {
	f.StringVar(&a.health, "health", "", healthUsage)
}

// readyTimeout bounds what a probe waits for the servers.
const readyTimeout = 2 * time.Second

// healthAnswers are what orchestrators ask: is the process alive, are its servers
// there, and the metrics. They tell no secret and change nothing.
func healthAnswers(sys *system.System) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if away := sys.Ready(ctx); away != "" {
			http.Error(w, away+" is away: nothing is claimed until it is back", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	m.Handle("GET /metrics", sys.Metrics())
	return m
}

// serveHealth serves until stop is called, which waits for it. Without --health it
// does nothing.
func (a *app) serveHealth(ctx context.Context, log *slog.Logger, sys *system.System) (stop func(), err error) {
	if a.health == "" {
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.health)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w; give another address", a.name("health"), a.health, err)
	}
	srv := &http.Server{Handler: healthAnswers(sys), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health cannot be served any more", "error", err)
		}
	}()
	log.Info("health is served", "at", "http://"+l.Addr().String())
	return func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = srv.Shutdown(end) // what is under way then is cut off
		_ = srv.Close()
		<-done
	}, nil
}
