package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// OpenUnchecked opens the ledger's database for whoever asks what is wrong with it:
// whatever its schema is. It makes none, and changes nothing of one that is embedded.
func OpenUnchecked(ctx context.Context, o Options) (*sqlstore.Store, error) {
	if err := o.check(false); err != nil {
		return nil, err
	}
	cfg := sqlstore.Config{Redactor: redact.New(redact.Config{}), Grace: o.Grace, Logger: o.Logger}
	if !o.Embedded() {
		return postgres.Open(ctx, postgres.Config{DSN: o.Postgres, MaxConns: 2, Store: cfg})
	}
	if _, err := os.Stat(ledgerPath(o.Dir)); err != nil {
		return nil, fmt.Errorf("no ledger in %s: %w", o.Dir, err)
	}
	return sqlite.Open(ctx, sqlite.Config{Path: ledgerPath(o.Dir), AsIs: true, Store: cfg})
}

// Examine asks the NATS server at url what it is like; it changes nothing there.
func Examine(ctx context.Context, url string, now func() time.Time) (jetstream.Exam, error) {
	nc, err := nats.Connect(url, nats.Timeout(5*time.Second))
	if err != nil {
		return jetstream.Exam{}, fmt.Errorf("connect to NATS: check that it runs and is reachable: %w", err)
	}
	defer nc.Close()
	return jetstream.Examine(ctx, nc, now)
}

// WorkerAlive reports whether a process holds the worker role of an embedded directory
// now. One that is about to take it waits for the moment that this lasts.
func WorkerAlive(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "worker.lock"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// A shared lock, so that two who ask do not take each other for a worker.
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, f.Close()
	}
	return false, errors.Join(err, f.Close())
}
