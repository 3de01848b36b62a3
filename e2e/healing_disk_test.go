//go:build daybook_faults

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

// frozen is what worker and projector say of a stream whose disk was full.
const frozen = "the stream is frozen: free space and restart the server"

// TestDiskFullOfNATS: RELIABILITY row 22. It fills the disk of NATS under load. The stream takes nothing
// until the server is restarted, also when there is room again; worker,
// projector and ledgerctl say so, runs go on as far as barriers carry them, and
// after the restart everything is as if nothing had been.
func TestDiskFullOfNATS(t *testing.T) {
	const runs = 40
	disk := smallDisk(t, 64)
	nats := testenv.StartNATSProcessOn(t, filepath.Join(disk.Dir, "store"))
	s := distributedWith(t, testenv.Postgres(t), nats)
	p := s.provider(t, keyed)
	all := s.queueRefunds(t, "full", runs)
	w := s.start(t, p, worker{apart: true, ttl: 5 * time.Second})
	pr := s.projector(t)
	until(t, "be in the middle of it", func() error { return atLeast(p.count(), runs/4) })
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the worker to say so", func() error { return w.says(frozen) })
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if out, code := s.ctl(t, "stuck", "--nats", nats.URL()); code != 1 || !strings.Contains(out, frozen) {
		t.Errorf("ledgerctl stuck exits with %d and does not say so:\n%s", code, out)
	}
	before := s.stored(t)
	pause(4 * time.Second) // time in which a stream that thaws would take something
	if after := s.stored(t); after != before {
		t.Errorf("the journal went from %d to %d messages without a restart: is it not frozen any more? See docs/operations.md", before, after)
	}
	nats.Stop()
	nats.Start()
	s.healed(t, p, all, 0)
	for _, proc := range []*process{w, pr} {
		if proc.ended() {
			t.Errorf("it ended: %v\n%s", proc.err, proc.tail())
		}
		proc.stop(t)
	}
	if out, _ := s.ctl(t, "stuck", "--nats", nats.URL()); strings.Contains(out, frozen) {
		t.Errorf("after the restart:\n%s", out)
	}
	if n := strings.Count(tail(w.log, 1<<20), frozen); n > 3 {
		t.Errorf("the worker said %d times that the stream is frozen", n)
	}
	t.Logf("%d messages before the restart, %d after it", before, s.stored(t))
}

// databaseFull is what workers say while PostgreSQL's disk is full.
const databaseFull = "the disk of the ledger's database is full"

// TestDiskFullOfPostgres: RELIABILITY row 23. It fills the disk of PostgreSQL under load: first rows
// find no place, or the log does not, and the server goes down. Nothing begins
// that is not committed, workers say what is wrong and fail no run, and go on by
// themselves when there is room.
func TestDiskFullOfPostgres(t *testing.T) {
	const runs = 60
	for _, what := range []string{"no room for rows", "no room for the log"} {
		t.Run(what, func(t *testing.T) {
			disk := smallDisk(t, 192)
			pg := testenv.StartPostgresWith(t, pgserver.Config{
				DataDir: filepath.Join(disk.Dir, "data"), Settings: map[string]string{"max_wal_size": "64MB", "min_wal_size": "32MB"},
			})
			s := distributedOn(t, pg.DSN("postgres"))
			p := s.provider(t, keyed)
			p.set(func(p *provider) { p.known = nil }) // it cannot always be asked; the attempts are compared afterwards
			p.set(func(p *provider) { p.delay = 50 * time.Millisecond })
			all := s.queueRefunds(t, "full", runs)
			w := s.start(t, p, worker{timeout: 10 * time.Second, ttl: 3 * time.Second})
			until(t, "be in the middle of it", func() error { return atLeast(p.count(), runs/6) })
			if err := disk.Fill(); err != nil {
				t.Fatal(err)
			}
			full := time.Now()
			if what == "no room for the log" {
				exhaustLog(t, s.dsn)
			}
			message := databaseFull
			if what == "no room for the log" {
				message = "database unavailable" // the server is gone, nobody is told why
			}
			until(t, "say so", func() error { return w.says(message) })
			pause(3 * time.Second) // several tries, and every lease runs out
			if what == "no room for rows" {
				if err := s.none(t, "failed runs", `SELECT count(*) FROM runs WHERE state = 'failed'`); err != nil {
					t.Error(err)
				}
			}
			if err := disk.Free(); err != nil {
				t.Fatal(err)
			}
			back := time.Now()
			if !pg.Running() { // as a supervisor does
				t.Log("the server went down and is started again")
				pg.Start()
			}
			s.healed(t, p, all, 0)
			if w.ended() {
				t.Errorf("the worker ended: %v\n%s", w.err, w.tail())
			}
			w.stop(t)
			s.begunBefore(t, p, full, back, false)
			if log := pg.Log(); what == "no room for the log" && !strings.Contains(log, "PANIC") {
				t.Logf("void? the server did not panic:\n%s", log)
			}
		})
	}
}

// exhaustLog has the server write its log until there is no file for it.
func exhaustLog(t *testing.T, dsn string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 100 {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return
		}
		_, err = conn.Exec(ctx, `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 20)`)
		if err == nil {
			_, err = conn.Exec(ctx, `SELECT pg_switch_wal()`)
		}
		_ = conn.Close(ctx)
		if err != nil {
			t.Logf("the log is full: %v", err)
			return
		}
	}
	t.Fatal("void: the log never got full")
}

// ctl runs ledgerctl on this site and returns what it says and its exit code.
func (s *site) ctl(t testing.TB, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, "cmd/ledgerctl"), append(args, "--postgres", s.dsn)...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}
