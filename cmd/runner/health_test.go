package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/runtime/system"
)

func probe(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b)
}

func TestHealth(t *testing.T) {
	nats := testenv.StartNATSProcess(t)
	o := system.Options{NATS: nats.URL(), Postgres: testenv.Postgres(t), Telemetry: system.Telemetry{Prometheus: true}}
	if _, err := system.Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sys, err := system.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	h := healthAnswers(sys)
	for _, tt := range []struct {
		path string
		code int
		want string
	}{
		{"/livez", http.StatusOK, "ok\n"},
		{"/readyz", http.StatusOK, "ok\n"},
		{"/metrics", http.StatusOK, "daybook_in_doubt"},
		{"/metrics", http.StatusOK, "daybook_ledger_lag"},
		{"/", http.StatusNotFound, ""},
	} {
		if code, text := probe(t, h, tt.path); code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %q", tt.path, code, text)
		}
	}
	nats.Kill()
	if code, text := probe(t, h, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "NATS is away") {
		t.Errorf("without NATS: %d %q", code, text)
	}
	if code, _ := probe(t, h, "/livez"); code != http.StatusOK {
		t.Errorf("alive without NATS: %d", code)
	}
}

func TestHealthIsServedUntilStopped(t *testing.T) {
	sys, err := system.Open(t.Context(), system.Options{Dir: t.TempDir(), Telemetry: system.Telemetry{Prometheus: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	a := &app{health: "127.0.0.1:0"}
	stop, err := a.serveHealth(t.Context(), log, sys)
	if err != nil {
		t.Fatal(err)
	}
	_, at, ok := strings.Cut(said.String(), "at=")
	if !ok {
		t.Fatalf("said %q", said.String())
	}
	at = strings.TrimSpace(at)
	get := func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		return http.DefaultClient.Do(req)
	}
	resp, err := get()
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	a.flags = new(pflag.FlagSet)
	a.addHealth(a.flags)
	a.health = strings.TrimPrefix(at, "http://")
	if _, err := a.serveHealth(t.Context(), log, sys); err == nil || !strings.Contains(err.Error(), "give another address") {
		t.Errorf("an address in use: %v", err)
	}
	stop()
	if resp, err := get(); err == nil {
		resp.Body.Close()
		t.Error("served after stop")
	}
}
