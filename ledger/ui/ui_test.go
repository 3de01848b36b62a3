package ui

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// both runs a test on SQLite and on PostgreSQL.
func both(t *testing.T, f func(t *testing.T, h ledgertest.Harness)) {
	t.Run("sqlite", func(t *testing.T) { f(t, openSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { f(t, openPostgres(t)) })
}

func openSQLite(t *testing.T) ledgertest.Harness {
	t.Helper()
	var offset atomic.Int64
	st, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: filepath.Join(t.TempDir(), "ledger.db"), Store: sqlstore.Config{Redactor: redact.New(redact.Config{}), Grace: time.Millisecond},
		Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ledgertest.Harness{Store: st, DB: st.DB(), Advance: func(d time.Duration) { offset.Add(int64(d)) }}
}

func openPostgres(t *testing.T) ledgertest.Harness {
	t.Helper()
	cfg := func(dsn string) postgres.Config {
		return postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: redact.New(redact.Config{}), Grace: time.Millisecond}}
	}
	dsn := testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), func(dsn string) error {
		st, err := postgres.Open(context.Background(), cfg(dsn))
		if err != nil {
			return err
		}
		defer func() { _ = st.Close() }()
		_, err = st.Migrate(context.Background())
		return err
	})
	st, err := postgres.Open(t.Context(), cfg(dsn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	advance := func(by time.Duration) {
		err := st.DB().Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO clock_offset (amount) VALUES ($1::bigint * interval '1 microsecond')
				ON CONFLICT (one) DO UPDATE SET amount = clock_offset.amount + excluded.amount`, by.Microseconds())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ledgertest.Harness{Store: st, DB: st.DB(), Advance: advance}
}

// site is a page over a ledger, as a browser sees it.
type site struct {
	t   *testing.T
	h   http.Handler
	who access.Principal
}

func open(t *testing.T, h ledgertest.Harness, change ...func(*Options)) site {
	t.Helper()
	st, ok := h.Store.(ledger.Store)
	if !ok {
		t.Fatal("no whole ledger")
	}
	o := Options{Store: st, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	page, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return site{t, page, access.Principal{Name: "ann", Scopes: []access.Scope{access.Read}}}
}

func (s site) ask(r *http.Request) *http.Response {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r.WithContext(access.With(r.Context(), s.who)))
	return w.Result()
}

// get is a page that has to come, as its text.
func (s site) get(path string) string {
	s.t.Helper()
	r := s.ask(httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil))
	b := body(s.t, r)
	if r.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %d\n%s", path, r.StatusCode, b)
	}
	return b
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// says checks what a page says, in order.
func says(t *testing.T, page string, wants ...string) {
	t.Helper()
	at := 0
	for _, w := range wants {
		i := strings.Index(page[at:], w)
		if i < 0 {
			t.Errorf("the page does not say %q behind %q", w, last(page[:at], 60))
			return
		}
		at += i + len(w)
	}
}

func last(s string, n int) string { return s[max(len(s)-n, 0):] }
