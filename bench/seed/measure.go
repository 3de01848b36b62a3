package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/ledger/ui"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

// goal is what each answer should take at most, at the median.
const goal = 200 * time.Millisecond

func measureCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("seed measure", flag.ContinueOnError)
	where := flags.String("ledger", "", "a SQLite file called ledger.db, or a PostgreSQL URL")
	binary := flags.String("ledgerctl", "", "a built ledgerctl; empty: only the store and the page are asked")
	n := flags.Int("n", 9, "how often each question is asked, after once to warm up")
	only := flags.String("only", "", "only questions whose name contains this")
	plans := flags.String("plans", "", "PostgreSQL: write EXPLAIN (ANALYZE, BUFFERS) of each statement of the store to this file")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if *where == "" || *n < 1 {
		return usagef("measure wants -ledger, and -n of at least 1")
	}
	st, err := openLedger(ctx, *where)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if err := st.Check(ctx); err != nil {
		return err
	}
	k, err := look(ctx, st)
	if err != nil {
		return fmt.Errorf("look for what to ask about: %w", err)
	}
	page, err := ui.New(ui.Options{Store: st, Refresh: -1})
	if err != nil {
		return err
	}
	m := measurement{n: *n, where: *where, binary: *binary, page: page, stderr: stderr, st: st}
	if err := line(stdout, "question", "store p50", "p95", "ledgerctl p50", "p95", "page p50", "p95"); err != nil {
		return err
	}
	for _, q := range k.questions() {
		if !strings.Contains(q.name, *only) {
			continue
		}
		if err := m.measure(ctx, stdout, q); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
	}
	fmt.Fprintf(stdout, "load %s\n", load())
	if *plans != "" {
		return writePlans(ctx, st, k.questions(), *only, *plans)
	}
	return nil
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func openLedger(ctx context.Context, where string) (*sqlstore.Store, error) {
	cfg := sqlstore.Config{Redactor: redact.New(redact.Config{})}
	if strings.Contains(where, "://") {
		return postgres.Open(ctx, postgres.Config{DSN: where, Store: cfg})
	}
	if _, err := os.Stat(where); err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, sqlite.Config{Path: where, Store: cfg})
}

// measurement asks each question in every way that it can be asked.
type measurement struct {
	n             int
	where, binary string
	page          http.Handler
	st            *sqlstore.Store
	stderr        io.Writer
}

func (m measurement) measure(ctx context.Context, w io.Writer, q question) error {
	var cells []string
	add := func(ask func() error) error {
		if ask == nil {
			cells = append(cells, "", "")
			return nil
		}
		p50, p95, err := m.times(ask)
		over := ""
		if p50 > goal {
			over = " !"
		}
		cells = append(cells, ms(p50)+over, ms(p95))
		return err
	}
	var store, command, page func() error
	if q.ask != nil {
		store = func() error { return q.ask(ctx, m.st) }
	}
	if q.args != nil && m.binary != "" {
		command = func() error { return m.command(ctx, q.args) }
	}
	if q.path != "" {
		page = func() error { return m.get(ctx, q.path) }
	}
	for _, ask := range []func() error{store, command, page} {
		if err := add(ask); err != nil {
			return err
		}
	}
	return line(w, append([]string{q.name}, cells...)...)
}

// line writes a row as soon as it is known: the whole takes minutes.
func line(w io.Writer, cells ...string) error {
	for i, c := range cells {
		cells[i] = fmt.Sprintf("%-12s", c)
	}
	cells[0] = fmt.Sprintf("%-36s", strings.TrimSpace(cells[0]))
	_, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "  "), " "))
	return err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// times asks n times after once, and returns the median and the 95th percentile.
func (m measurement) times(ask func() error) (p50, p95 time.Duration, err error) {
	took := make([]time.Duration, m.n+1)
	for i := range took {
		began := time.Now()
		if err := ask(); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(began)
	}
	took = took[1:]
	slices.Sort(took)
	return took[len(took)/2], took[min(len(took)*95/100, len(took)-1)], nil
}

// command runs ledgerctl as a person does, its start included.
func (m measurement) command(ctx context.Context, args []string) error {
	c := exec.CommandContext(ctx, m.binary, args...)
	c.Env = append(os.Environ(), "DAYBOOK_POSTGRES_URL="+m.where, "DAYBOOK_DIR=")
	if !strings.Contains(m.where, "://") {
		c.Env = append(os.Environ(), "DAYBOOK_DIR="+filepath.Dir(m.where), "DAYBOOK_POSTGRES_URL=")
	}
	var said strings.Builder
	c.Stdout, c.Stderr = io.Discard, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("ledgerctl %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return nil
}

// get asks the page for one of its sides, as somebody who may see all.
func (m measurement) get(ctx context.Context, path string) error {
	ctx = access.With(ctx, access.Principal{Name: "bench", Scopes: []access.Scope{access.Read}})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	w := httptest.NewRecorder()
	m.page.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Errorf("GET %s: %d", path, w.Code)
	}
	return nil
}

// writePlans has PostgreSQL say how it answers what the store asks.
func writePlans(ctx context.Context, st *sqlstore.Store, qs []question, only, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	e := &explained{DB: st.DB(), w: f}
	asked := sqlstore.New(e, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	for _, q := range qs {
		if q.ask == nil || !strings.Contains(q.name, only) {
			continue
		}
		fmt.Fprintf(f, "== %s ==\n", q.name)
		if err := q.ask(ctx, asked); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
	}
	return nil
}

// explained is a database that explains what it is asked to read.
type explained struct {
	sqlstore.DB
	w io.Writer
}

func (e *explained) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return e.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, explainedTx{tx, e.w}) })
}

type explainedTx struct {
	sqlstore.Tx
	w io.Writer
}

func (t explainedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	rows, err := t.Tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+q, args...)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(t.w, strings.Join(strings.Fields(q), " "))
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		fmt.Fprintln(t.w, "  "+s)
	}
	rows.Close()
	fmt.Fprintln(t.w)
	return t.Tx.Query(ctx, q, args...)
}

func (t explainedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r, err := t.Query(ctx, q, args...)
	return sqlstore.First(r, err)
}
