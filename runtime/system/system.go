// Package system opens the parts that a worker needs, wired as they ship: the
// ledger and the bus, from a directory (embedded: SQLite and a NATS server in
// this process) or from two URLs (distributed: PostgreSQL and NATS). It is for
// programs that embed Daybook; cmd/runner uses nothing else. A program that
// wires the parts itself needs only package runtime.
package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/embedded"
	"github.com/daybookhq/daybook/internal/telemetry"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/queue"
)

// Options say where the system is. Either Dir alone, or Postgres with NATS;
// a tool that only reads the ledger needs no NATS.
type Options struct {
	Dir      string // embedded: everything below this directory
	NATS     string // URL
	Postgres string // connection string
	// Sync is what the operator asserts of a foreign NATS server: always, interval or empty.
	Sync string
	// Grace is added to an attempt's deadline; zero = 30 seconds.
	Grace time.Duration
	// NoWait makes Open fail where it would wait for a server that is away.
	NoWait bool
	// DryRun makes [Migrate] say what it would apply, and [OpenLedger] open a ledger in which nothing is kept: what is done to it
	// is checked and answered as ever, and rolled back. [Open] does not look at it.
	DryRun bool
	Logger *slog.Logger
	// Sealer keeps exact results of destructive tools, encrypted; nil keeps the redacted ones alone.
	Sealer *ledger.Sealer
	// Registered values are known to the redactor from the start, by name.
	Secrets map[string]string
	// Telemetry says what is told to OpenTelemetry.
	Telemetry Telemetry
}

// Embedded reports whether everything runs in this process.
func (o Options) Embedded() bool { return o.Postgres == "" }

// Errors of this package.
var (
	// ErrOptions: the options do not say where the system is.
	ErrOptions = errors.New("where is the ledger? give --dir DIR for an embedded one, or --postgres URL (and --nats URL)")
	// ErrDirInUse: another worker holds the directory.
	ErrDirInUse = errors.New("another worker holds this directory: an embedded directory has one worker; stop it, use another directory, or run workers on NATS and PostgreSQL")
)

func (o Options) check(needNATS bool) error {
	switch {
	case o.Dir == "" && o.Postgres == "":
		return ErrOptions
	case o.Dir != "" && o.Postgres != "":
		return errors.New("--dir and --postgres exclude each other: an embedded directory has its own database")
	case o.Postgres != "" && o.NATS == "" && needNATS:
		return errors.New("--postgres needs --nats URL: workers write their journal to NATS JetStream")
	case o.Sync != "" && o.Sync != "always" && o.Sync != "interval":
		return fmt.Errorf("--nats-sync %q: want always or interval", o.Sync)
	}
	return nil
}

func ledgerPath(dir string) string { return filepath.Join(dir, "ledger.db") }

// OpenLedger opens the ledger alone.
func OpenLedger(ctx context.Context, o Options) (ledger.Store, *redact.Redactor, error) {
	st, r, err := openLedger(ctx, o, false)
	if err != nil {
		return nil, nil, err
	}
	return st, r, nil
}

// openLedger opens the store twice: the fingerprints in redaction markers are
// made with a key that the ledger itself keeps.
func openLedger(ctx context.Context, o Options, migrate bool) (*sqlstore.Store, *redact.Redactor, error) {
	if err := o.check(false); err != nil {
		return nil, nil, err
	}
	open := func(r *redact.Redactor) (*sqlstore.Store, error) {
		cfg := sqlstore.Config{Redactor: r, Grace: o.Grace, Logger: o.Logger, Sealer: o.Sealer, DryRun: o.DryRun && !migrate}
		if o.Embedded() {
			if _, err := os.Stat(ledgerPath(o.Dir)); err != nil && !migrate {
				return nil, fmt.Errorf("no ledger in %s: run a worker there first, or ledgerctl migrate: %w", o.Dir, err)
			}
			return sqlite.Open(ctx, sqlite.Config{Path: ledgerPath(o.Dir), Store: cfg})
		}
		return postgres.Open(ctx, postgres.Config{DSN: o.Postgres, Store: cfg})
	}
	first, err := open(redact.New(redact.Config{}))
	if err != nil {
		return nil, nil, err
	}
	if migrate {
		if _, err := first.Migrate(ctx); err != nil {
			return nil, nil, errors.Join(err, first.Close())
		}
	}
	err = first.Check(ctx)
	var key []byte
	if err == nil {
		key, err = first.TenantKey(ctx, "default")
	}
	if err := errors.Join(err, first.Close()); err != nil {
		return nil, nil, err
	}
	r := redact.New(redact.Config{TenantKey: key})
	for name, value := range o.Secrets {
		if err := r.Register(name, value); err != nil {
			return nil, nil, err
		}
	}
	st, err := open(r)
	return st, r, err
}

// Migrate brings the ledger's schema up to date and says what it applied.
func Migrate(ctx context.Context, o Options) ([]string, error) {
	if err := o.check(false); err != nil {
		return nil, err
	}
	cfg := sqlstore.Config{Redactor: redact.New(redact.Config{}), Logger: o.Logger, DryRun: o.DryRun}
	var st *sqlstore.Store
	var err error
	if o.Embedded() && o.DryRun {
		if _, err := os.Stat(ledgerPath(o.Dir)); errors.Is(err, os.ErrNotExist) {
			return sqlite.Steps(), nil
		}
	}
	if o.Embedded() {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, err
		}
		st, err = sqlite.Open(ctx, sqlite.Config{Path: ledgerPath(o.Dir), Store: cfg})
	} else {
		st, err = postgres.Open(ctx, postgres.Config{DSN: o.Postgres, Store: cfg})
	}
	if err != nil {
		return nil, err
	}
	done, err := st.Migrate(ctx)
	return done, errors.Join(err, st.Close())
}

// System is an open ledger and bus.
type System struct {
	Store    *sqlstore.Store
	Redactor *redact.Redactor
	Vault    *redact.Vault
	Bus      *jetstream.Bus
	Waker    *queue.NATS
	// Promise says in words what the journal's settings promise.
	Promise string
	// NoLive keeps Work from telling people who watch runs what models write.
	NoLive bool

	log       *slog.Logger
	embedded  bool
	telemetry *telemetry.Telemetry // nil = off
	metrics   http.Handler
	closers   []func()
}

// Close closes everything in reverse order.
func (s *System) Close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// Open opens ledger and bus. In embedded mode it migrates, takes the
// directory's worker role (see [ErrDirInUse]) and voids the leases of whoever
// held it before: with the role taken, nobody else can be acting. A database or
// a NATS server in another process that is away is waited for until ctx ends,
// unless o.NoWait is set; the log says which.
func Open(ctx context.Context, o Options) (*System, error) {
	if err := o.check(true); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		s, err := openOnce(ctx, o)
		server := Away(err)
		if err == nil || o.Embedded() || server == "" || o.NoWait || ctx.Err() != nil {
			return s, err
		}
		wait := min(model.Backoff(attempt, 0, rand.Float64), 5*time.Second)
		if o.Logger != nil {
			// Nothing is registered with a redactor yet but what the options hold.
			r := redact.New(redact.Config{})
			for name, value := range o.Secrets {
				_ = r.Register(name, value) // what is too short to look for says so in openOnce
			}
			at := Place(o.Postgres)
			if server == "NATS" {
				at = Place(o.NATS)
			}
			o.Logger.Warn(server+" is away, trying again", "at", at, "try", attempt, "in", wait.Round(time.Millisecond), "error", r.Error(err))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

func openOnce(ctx context.Context, o Options) (_ *System, err error) {
	s := &System{log: slog.New(slog.DiscardHandler), embedded: o.Embedded()}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if o.Embedded() {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, err
		}
		lock, err := lockDir(ctx, o.Dir)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, func() { _ = lock.Close() })
	}
	if s.Store, s.Redactor, err = openLedger(ctx, o, o.Embedded()); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = s.Store.Close() })
	if err := s.startTelemetry(ctx, o); err != nil {
		return nil, err
	}
	if o.Logger != nil {
		s.log = slog.New(s.Redactor.Handler(s.telemetry.Handler(o.Logger.Handler())))
	}
	if err := s.watch(); err != nil {
		return nil, err
	}
	s.Vault = redact.NewVault(s.Redactor)
	for name, value := range o.Secrets {
		if err := s.Vault.Set(name, value); err != nil {
			return nil, err
		}
	}
	if o.Embedded() {
		if _, err := s.Store.VoidLeases(ctx); err != nil {
			return nil, err
		}
	}
	nc, err := s.connect(o)
	if err != nil {
		return nil, err
	}
	if s.Bus, err = jetstream.Open(ctx, nc, jetstream.Config{Logger: o.Logger, SyncAlways: o.Embedded() || o.Sync == "always"}); err != nil {
		return nil, fmt.Errorf("open journal: %w", s.Redactor.Error(err))
	}
	s.Store.Guard(s.Bus.Consumer())
	s.Waker = queue.NewNATS(nc)
	s.Promise, err = s.promise(ctx, o)
	return s, err
}

func (s *System) connect(o Options) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name("daybook"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.RetryOnFailedConnect(false),
	}
	var nc *nats.Conn
	var err error
	if o.Embedded() {
		srv, serr := embedded.Start(embedded.Config{StoreDir: filepath.Join(o.Dir, "nats"), Socket: liveSocket(o.Dir), Logger: quiet(o.Logger)})
		if serr != nil {
			return nil, fmt.Errorf("start embedded NATS in %s: %w", o.Dir, serr)
		}
		s.closers = append(s.closers, srv.Shutdown)
		nc, err = srv.Connect(opts...)
	} else {
		nc, err = nats.Connect(o.NATS, opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: check that it runs and is reachable: %w", s.Redactor.Error(err))
	}
	s.closers = append(s.closers, nc.Close)
	return nc, nil
}

// quiet drops what a NATS server says of itself unless something is wrong.
func quiet(l *slog.Logger) *slog.Logger {
	if l == nil {
		return nil
	}
	return slog.New(warnings{l.Handler()})
}

// warnings is a handler that passes on warnings and errors alone.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// promise says which of the journal's guarantees hold with these settings; an
// ordinary client cannot see a foreign server's sync setting.
func (s *System) promise(ctx context.Context, o Options) (string, error) {
	info, err := s.Bus.Info(ctx)
	if err != nil {
		return "", fmt.Errorf("ask NATS for the journal's settings: %w", s.Redactor.Error(err))
	}
	what := fmt.Sprintf("journal on NATS, %d replica(s)", max(info.Journal.Replicas, 1))
	switch {
	case o.Embedded(), o.Sync == "always":
		return what + ", synced always: an acknowledged event survives a power cut", nil
	default:
		return what + ", synced at an interval (assert --nats-sync=always if it is): a power cut may lose the last events of readonly calls and model answers, which are made again; destructive effects are safe in the database", nil
	}
}

// Waker connects to NATS for wake-ups alone; close gives the connection back.
func Waker(url string) (w *queue.NATS, closeFunc func(), err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return queue.NewNATS(nc), func() {
		_ = nc.FlushTimeout(time.Second) // a lost hint costs a sweep
		nc.Close()
	}, nil
}

// Frozen says which streams of the NATS server at url take no messages until it
// is restarted; the error wraps events.ErrJournalFrozen then, and nil if there is none.
func Frozen(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to NATS: check that it runs and is reachable: %w", err)
	}
	defer nc.Close()
	return jetstream.Frozen(ctx, nc)
}

// lockTries is how often the worker role is tried for before it counts as another's.
const lockTries = 10

// lockDir takes the worker role of an embedded directory. The kernel gives the
// lock back when the process ends, however it ends.
func lockDir(ctx context.Context, dir string) (io.Closer, error) {
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	return lockDirBy(ctx, dir, again.C)
}

// lockDirBy tries once, and then whenever again says: who only asks for a worker, see
// [WorkerAlive], holds the lock for a moment.
func lockDirBy(ctx context.Context, dir string, again <-chan time.Time) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "worker.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of %s: %w", dir, err)
	}
	for range lockTries {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return f, nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", dir, ErrDirInUse), f.Close())
}

// ScanStreams calls f with the subject or header and the bytes of everything that the
// streams of the NATS server at url keep; it changes nothing there. total is told how
// many messages there are, first.
func ScanStreams(ctx context.Context, url string, total func(messages uint64), f func(jetstream.Stored) error) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to NATS: check that it runs and is reachable: %w", err)
	}
	defer nc.Close()
	return jetstream.Scan(ctx, nc, total, f)
}
