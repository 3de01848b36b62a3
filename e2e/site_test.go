//go:build daybook_faults

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
)

// site is where a system under test lives: a directory, or a database and a
// NATS server in processes of their own. The test looks at its ledger from outside.
type site struct {
	logs  string // directory of logs and provider logs
	dir   string // embedded
	dsn   string
	nats  *testenv.NATSProcess
	store *sqlstore.Store
	red   *redact.Redactor
	procs atomic.Int32
}

func storeConfig(r *redact.Redactor) sqlstore.Config {
	return sqlstore.Config{Redactor: r, Grace: 100 * time.Millisecond}
}

// embeddedSite is a directory with a migrated ledger.
func embeddedSite(t testing.TB) *site {
	t.Helper()
	return embeddedAt(t, &site{logs: t.TempDir(), dir: t.TempDir()})
}

// embeddedAt is the site of another's directory, opened anew.
func embeddedAt(t testing.TB, at *site) *site {
	t.Helper()
	s := &site{logs: at.logs, dir: at.dir, red: redact.New(redact.Config{})}
	s.procs.Store(at.procs.Load())
	var err error
	s.store, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(s.dir, "ledger.db"), Store: storeConfig(s.red)})
	if err != nil {
		t.Fatal(err)
	}
	return s.opened(t)
}

// distributedSite is a fresh database on the shared server, and a NATS server.
func distributedSite(t testing.TB) *site {
	t.Helper()
	return distributedOn(t, testenv.Postgres(t))
}

func distributedOn(t testing.TB, dsn string) *site {
	t.Helper()
	return distributedWith(t, dsn, testenv.StartNATSProcess(t))
}

func distributedWith(t testing.TB, dsn string, nats *testenv.NATSProcess) *site {
	t.Helper()
	s := &site{logs: t.TempDir(), dsn: dsn, nats: nats, red: redact.New(redact.Config{})}
	var err error
	s.store, err = postgres.Open(t.Context(), postgres.Config{DSN: s.dsn, MaxConns: 4, Store: storeConfig(s.red)})
	if err != nil {
		t.Fatal(err)
	}
	return s.opened(t)
}

func (s *site) opened(t testing.TB) *site {
	t.Helper()
	t.Cleanup(func() {
		if err := s.store.Close(); err != nil {
			t.Errorf("close ledger: %v", err)
		}
	})
	if _, err := s.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	keepLogs(t, s.logs)
	return s
}

// flags say where the system is.
func (s *site) flags() []string {
	if s.dir != "" {
		return []string{"--dir", s.dir}
	}
	return []string{"--nats", s.nats.URL(), "--postgres", s.dsn}
}

// provider is a provider whose requests are checked against this ledger: each
// must belong to an attempt that was committed before.
func (s *site) provider(t testing.TB, mode string) *provider {
	t.Helper()
	p := newProvider(t, mode, filepath.Join(s.logs, fmt.Sprintf("provider-%d.txt", s.procs.Add(1))))
	p.set(func(p *provider) { p.known = s.attempted })
	return p
}

// attempted wants an attempt of an effect that began before now.
func (s *site) attempted(key string) error {
	now := time.Now()
	var h events.Hash
	if err := h.UnmarshalText([]byte(key)); err != nil {
		return fmt.Errorf("its key is no op key: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	as, err := s.store.Attempts(ctx, h)
	if err != nil {
		return fmt.Errorf("the ledger does not have it: %w", err)
	}
	for _, a := range as {
		if a.StartedAt.Before(now) {
			return nil
		}
	}
	return fmt.Errorf("no attempt of it began before %s", now)
}

// worker says how a worker is started.
type worker struct {
	faults string // DAYBOOK_FAULTS
	counts string // DAYBOOK_FAULT_COUNTS
	queue  string
	apart  bool // without a projector
	log    string
	name   string
	// A busy machine may let a process stand still for seconds. Short ones are
	// only for what waits for their end: a takeover for the lease's, a question to
	// the provider for the refund's.
	timeout time.Duration // of a refund; default 20 s
	ttl     time.Duration // of a lease; default 15 s
	more    []string
	embeds  bool // the worker of this package instead of runner
}

// start starts a worker on the refunds agent.
func (s *site) start(t testing.TB, p *provider, w worker) *process {
	t.Helper()
	env := []string{"DAYBOOK_FAULTS=" + w.faults, "DAYBOOK_FAULT_COUNTS=" + w.counts, "DAYBOOK_FAULT_SEED=1"}
	if w.log == "" {
		w.log = filepath.Join(s.logs, fmt.Sprintf("worker-%d.log", s.procs.Add(1)))
	}
	if w.timeout == 0 {
		w.timeout = 20 * time.Second
	}
	if w.ttl == 0 {
		w.ttl = 15 * time.Second
	}
	args := s.flags()
	if p.mode == fenced || w.embeds {
		args = append(args, "--provider", p.srv.URL, "--mode", p.mode, "--timeout", w.timeout.String(), "--lease-ttl", w.ttl.String())
		if w.queue != "" {
			args = append(args, "--queue", w.queue)
		}
		return start(t, w.log, env, binary(t, "e2e/worker"), append(args, w.more...)...)
	}
	cmd := []string{"dev"}
	if s.dir == "" {
		cmd = []string{"worker", "--nats-sync", "always"}
		if !w.apart {
			cmd = append(cmd, "--project")
		}
	}
	args = append(append(cmd, args...), "--payments", p.srv.URL, "--payments-recovery", p.mode, "--payments-timeout", w.timeout.String(),
		"--grace", "100ms", "--lease-ttl", w.ttl.String(), "--sweep", "50ms", "--concurrency", "8")
	if w.queue != "" {
		args = append(args, "--queue", w.queue)
	}
	if w.name != "" {
		args = append(args, "--name", w.name)
	}
	return start(t, w.log, env, binary(t, "cmd/runner"), append(args, w.more...)...)
}

// projector starts a projector of its own.
func (s *site) projector(t testing.TB) *process {
	t.Helper()
	log := filepath.Join(s.logs, fmt.Sprintf("projector-%d.log", s.procs.Add(1)))
	return start(t, log, nil, binary(t, "cmd/runner"), append([]string{"projector"}, s.flags()...)...)
}

// submit queues one refund.
func (s *site) submit(t testing.TB, tenant, queue, order string) ledger.Run {
	t.Helper()
	c := runtime.NewClient(s.store, s.red, nil)
	r, existed, err := c.Submit(t.Context(), runtime.Submit{
		Tenant: tenant, Queue: queue, Agent: "refunds", ClientKey: order, Owner: "support",
		Input: map[string]string{"order_id": order, "amount": "49.90", "currency": "EUR", "note": "The lamp arrived with a broken shade."},
	})
	if err != nil || existed {
		t.Fatalf("submit: existed %v, %v", existed, err)
	}
	return r
}

// resting says why a run is not at rest: ended, or parked for a person.
func (s *site) resting(t testing.TB, id events.RunID, forPerson bool) error {
	r, err := s.store.Run(t.Context(), id)
	switch {
	case err != nil:
		return err
	case r.State.Ended(), forPerson && r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt:
		return nil
	}
	return fmt.Errorf("run %s is %s %s %s, epoch %d of %s", id, r.State, r.ParkReason, r.ParkDetail, r.Epoch, r.Worker)
}

// whole says what verification finds, apart from notes. A zero run is all runs.
func (s *site) whole(t testing.TB, id events.RunID) error {
	var found []string
	_, err := s.store.Verify(t.Context(), id, func(f ledger.Finding) error {
		if f.Kind != ledger.Note {
			found = append(found, fmt.Sprintf("%s: run %s seq %d: %s", f.Kind, f.Run, f.Seq, f.Text))
		}
		return nil
	})
	if err == nil && len(found) > 0 {
		err = errors.New(strings.Join(found, "\n"))
	}
	return err
}

// settled says why not all facts of a run are in its history.
func (s *site) settled(t testing.TB, id events.RunID) error {
	fs, err := s.store.Pending(t.Context(), id)
	if err != nil {
		return err
	}
	if len(fs) > 0 {
		return fmt.Errorf("%d facts of run %s are pending, the first is %s", len(fs), id, fs[0].Type)
	}
	return nil
}

// fed says why not every event of the site is in the feed.
func (s *site) fed(t testing.TB) error {
	es, err := s.store.Unfed(t.Context(), 10)
	if err != nil {
		return err
	}
	if len(es) > 0 {
		return fmt.Errorf("%d events are not in the feed, the first is %s", len(es), es[0].Envelope().Type)
	}
	return nil
}

// effect returns the only effect of a run, if there is one.
func (s *site) effect(t testing.TB, id events.RunID) (e ledger.Effect, ok bool) {
	t.Helper()
	es, err := s.store.Effects(t.Context(), ledger.EffectFilter{Run: id})
	if err != nil {
		t.Fatal(err)
	}
	switch len(es) {
	case 0:
		return e, false
	case 1:
		return es[0], true
	}
	t.Fatalf("run %s has %d effects", id, len(es))
	return e, false
}

// history returns the events of a run.
func (s *site) history(t testing.TB, id events.RunID) []events.Event {
	t.Helper()
	var es []events.Event
	err := s.store.Events(t.Context(), id, 1, func(e events.Sealed) error {
		d, err := e.Decode()
		es = append(es, d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return es
}

// number asks the database of a distributed site.
func (s *site) number(t testing.TB, sql string, args ...any) (n int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// redactorWith is a redactor that knows a secret.
func redactorWith(t testing.TB, secret string) *redact.Redactor {
	t.Helper()
	r := redact.New(redact.Config{})
	if err := r.Register("canary", secret); err != nil {
		t.Fatal(err)
	}
	return r
}
