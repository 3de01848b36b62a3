package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

// ErrNoRows is what Row.Scan returns when there is no row.
var ErrNoRows = errors.New("no rows")

// Config of a [Store]. Redactor is required.
type Config struct {
	// Redactor seals the facts that a transaction makes.
	Redactor *redact.Redactor
	// IDs makes event and run ids; nil = real time and randomness.
	IDs *events.IDs
	// Grace is added to an attempt's deadline before nobody can act any more.
	// Zero means 30 seconds.
	Grace time.Duration
	// AuditAge is how old a pending effect fact of a run may be before its next
	// Begin is refused. Zero means 5 minutes. AuditMax bounds them over all runs; zero means 10,000.
	AuditAge time.Duration
	AuditMax int
	// MaxCrashes is how often in a row a run is taken over from a worker that died
	// without an outcome in its history, before it is held back. Zero means 10,
	// negative for ever.
	MaxCrashes int
	// Sealer keeps exact results, encrypted; nil keeps the redacted ones alone.
	Sealer *ledger.Sealer
	// TrustRecorded leaves out the projector's second look for secrets in events
	// from the journal.
	TrustRecorded bool
	// DryRun rolls every transaction back: calls say what they would do.
	DryRun bool
	// Logger gets alarms (a fork found, poison, contradictions). Nil discards.
	Logger *slog.Logger
}

// Store implements ledger.Store over a [DB]. Safe for concurrent use.
type Store struct {
	db  DB
	cfg Config

	projecting projecting
	witness    witness
	guard      guard
	// audit is shared by all Begins of this process.
	audit auditCount
	// budgets is shared by all reservations of this process.
	budgets budgeting
}

var _ ledger.Store = (*Store)(nil)

// New returns a store over db; Close closes it.
func New(db DB, cfg Config) *Store {
	if cfg.IDs == nil {
		cfg.IDs = events.NewIDs(nil, nil)
	}
	if cfg.Grace == 0 {
		cfg.Grace = 30 * time.Second
	}
	if cfg.AuditAge == 0 {
		cfg.AuditAge = 5 * time.Minute
	}
	if cfg.AuditMax == 0 {
		cfg.AuditMax = 10_000
	}
	if cfg.MaxCrashes == 0 {
		cfg.MaxCrashes = 10
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.DryRun {
		db = &dryRun{DB: db}
	}
	return &Store{db: db, cfg: cfg}
}

// DB is the database beneath, for what keeps tables of its own beside the
// ledger's: see runtime/memorydb. It is closed with the store.
func (s *Store) DB() DB { return s.db }

// Migrate implements ledger.Store.
func (s *Store) Migrate(ctx context.Context) ([]string, error) { return s.db.Migrate(ctx) }

// Check implements ledger.Store.
func (s *Store) Check(ctx context.Context) error { return s.db.Check(ctx) }

// Close implements ledger.Store.
func (s *Store) Close() error { return s.db.Close() }
