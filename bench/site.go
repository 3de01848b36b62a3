package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/embedded"
	"github.com/daybookhq/daybook/runtime/system"
)

// What a NATS server fsyncs.
const (
	always   = 0               // before each ack
	interval = 2 * time.Minute // the server's own default
)

func syncName(every time.Duration) string {
	if every == always {
		return "journal: every ack"
	}
	return "journal: no (every 2 min)"
}

// site is a fresh database and a fresh NATS server, and what was opened on them.
type site struct {
	dsn     string
	nats    *embedded.Server
	url     string
	look    *pgxpool.Pool // of one connection, to count with
	closers []func() error
}

func (s *site) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// database makes an empty database and returns its URL.
func (b *bench) database(ctx context.Context) (string, func() error, error) {
	name := fmt.Sprintf("daybook_bench_%08x", rand.Uint32())
	if err := b.admin(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	drop := func() error {
		return b.admin(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}
	u, err := url.Parse(b.dsn)
	if err != nil {
		return "", nil, errors.Join(errors.New("DAYBOOK_TEST_POSTGRES_URL is no URL"), drop())
	}
	u.Path = "/" + name
	return u.String(), drop, nil
}

func (b *bench) admin(ctx context.Context, q string) error {
	conn, err := pgx.Connect(ctx, b.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, q)
	return err
}

// site makes a migrated database and a NATS server that listens on a port.
func (b *bench) site(ctx context.Context, every time.Duration) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	dsn, drop, err := b.database(ctx)
	if err != nil {
		return nil, err
	}
	s.dsn = dsn
	s.closers = append(s.closers, drop)
	if _, err := system.Migrate(ctx, system.Options{Postgres: dsn}); err != nil {
		return nil, err
	}
	s.nats, err = embedded.Start(embedded.Config{
		StoreDir: filepath.Join(b.dir, fmt.Sprintf("nats-%08x", rand.Uint32())), SyncInterval: every, Listen: "127.0.0.1:0",
	})
	if err != nil {
		return nil, err
	}
	s.url = s.nats.ClientURL()
	s.closers = append(s.closers, func() error { s.nats.Shutdown(); return nil })
	return s, nil
}

// open opens ledger and bus as a worker does.
func (s *site) open(ctx context.Context, every time.Duration) (*system.System, error) {
	o := system.Options{NATS: s.url, Postgres: s.dsn, Sync: "interval"}
	if every == always {
		o.Sync = "always"
	}
	sys, err := system.Open(ctx, o)
	if err == nil {
		s.closers = append(s.closers, func() error { sys.Close(); return nil })
	}
	return sys, err
}

// jetstream connects beside the system.
func (s *site) jetstream() (jetstream.JetStream, error) {
	nc, err := nats.Connect(s.url)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { nc.Close(); return nil })
	return jetstream.New(nc)
}

func (s *site) pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(s.dsn)
	if err != nil {
		return nil, err
	}
	c.MaxConns, c.MinConns = int32(conns), int32(conns) //nolint:gosec // small
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err == nil {
		s.closers = append(s.closers, func() error { p.Close(); return nil })
	}
	return p, err
}

// warm is hammer after as much of the same that does not count: connections are
// made, statements prepared.
func (b *bench) warm(ctx context.Context, n int, d time.Duration, f func(ctx context.Context, worker int) error) (taken, error) {
	if t, err := b.hammer(ctx, n, d, f); err != nil {
		return t, err
	}
	return b.hammer(ctx, n, d, f)
}

// hammer calls f from n goroutines for d and returns how often and how long.
func (b *bench) hammer(ctx context.Context, n int, d time.Duration, f func(ctx context.Context, worker int) error) (t taken, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	each := make([]spread, n)
	var wg sync.WaitGroup
	start, cpu := time.Now(), b.cpu.used()
	for w := range n {
		wg.Go(func() {
			for time.Since(start) < d && ctx.Err() == nil {
				t := time.Now()
				if err := f(ctx, w); err != nil {
					cancel(err)
					return
				}
				each[w] = append(each[w], time.Since(t))
			}
		})
	}
	wg.Wait()
	t.wall, t.cpu = time.Since(start), b.cpu.used()-cpu
	for _, s := range each {
		t.each = append(t.each, s...)
	}
	t.n = len(t.each)
	return t, context.Cause(ctx)
}
