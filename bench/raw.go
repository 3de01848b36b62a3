package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names of raw figures that ratios refer to.
func rawCommits(n int) string { return fmt.Sprintf("raw PostgreSQL commits, %d connections", n) }
func rawPairs(n int) string   { return fmt.Sprintf("raw pairs of commits, %d connections", n) }
func rawPublish(n int, every time.Duration) string {
	return fmt.Sprintf("raw JetStream publishes, %d publishers, sync %s", n, map[bool]string{true: "always", false: "2m"}[every == always])
}

const fsyncsCommit = "database: every commit"

// rawPart measures what everything else is compared to: rows and messages of 1 KB.
func rawPart(ctx context.Context, b *bench) error {
	for _, every := range []time.Duration{always, interval} {
		if err := rawJetStream(ctx, b, every); err != nil {
			return err
		}
	}
	return rawPostgres(ctx, b)
}

func rawJetStream(ctx context.Context, b *bench, every time.Duration) (err error) {
	s, err := b.site(ctx, every)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	js, err := s.jetstream()
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.*"}, Storage: jetstream.FileStorage})
	if err != nil {
		return err
	}
	msg := bytes.Repeat([]byte("x"), 1024)
	for _, n := range []int{1, 64} {
		t, err := b.warm(ctx, n, b.time/8, func(ctx context.Context, w int) error {
			_, err := js.Publish(ctx, fmt.Sprintf("raw.%d", w), msg)
			return err
		})
		if err != nil {
			return err
		}
		b.report.add(rate("raw", rawPublish(n, every), t, syncName(every)))
	}
	return nil
}

func rawPostgres(ctx context.Context, b *bench) (err error) {
	s, err := b.site(ctx, interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	p, err := s.pool(ctx, 64)
	if err != nil {
		return err
	}
	if _, err := p.Exec(ctx, `CREATE TABLE raw (id bigserial PRIMARY KEY, bytes bytea NOT NULL)`); err != nil {
		return err
	}
	row := bytes.Repeat([]byte("x"), 1024)
	insert := func(ctx context.Context) error {
		_, err := p.Exec(ctx, `INSERT INTO raw (bytes) VALUES ($1)`, row)
		return err
	}
	for _, n := range []int{1, 32, 64} {
		t, err := b.warm(ctx, n, b.time/8, func(ctx context.Context, _ int) error { return insert(ctx) })
		if err != nil {
			return err
		}
		b.report.add(rate("raw", rawCommits(n), t, fsyncsCommit))
	}
	for _, n := range []int{1, 32} {
		t, err := b.warm(ctx, n, b.time/8, func(ctx context.Context, _ int) error {
			return errors.Join(insert(ctx), insert(ctx))
		})
		if err != nil {
			return err
		}
		b.report.add(rate("raw", rawPairs(n), t, fsyncsCommit))
	}
	return nil
}
