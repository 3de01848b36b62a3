//go:build daybook_faults

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
	"github.com/daybookhq/daybook/ledger"
)

// awayTTL is how long the worker's leases last without the database, and onTheWay
// how long a request may need that left in time.
const awayTTL, onTheWay = time.Second, 2 * time.Second

// TestAwayInTheMiddle takes a server away while a worker works: the same worker
// goes on when it is back, nothing is lost, and as long as the database is away
// no destructive call begins.
// RELIABILITY row 15.
func TestAwayInTheMiddle(t *testing.T) {
	const runs = 60
	for _, what := range []string{"PostgreSQL", "PostgreSQL killed", "NATS"} {
		t.Run(what, func(t *testing.T) {
			pg := testenv.StartPostgres(t)
			s := distributedOn(t, pg.DSN("postgres"))
			p := s.provider(t, keyed)
			p.set(func(p *provider) { p.known = nil }) // it cannot be asked; the attempts are compared afterwards
			all := make([]ledger.Run, runs)
			for i := range all {
				all[i] = s.submit(t, "away", "q", fmt.Sprintf("ORD-%04d", i))
			}
			w := s.start(t, p, worker{timeout: 10 * time.Second, ttl: awayTTL})
			until(t, "be in the middle of it", func() error { return atLeast(p.count(), runs/6) })
			switch what {
			case "PostgreSQL":
				pg.Stop(pgserver.Fast)
			case "PostgreSQL killed":
				pg.Kill()
			case "NATS":
				s.nats.Kill()
			}
			gone := time.Now()
			message := "database unavailable"
			if what == "NATS" {
				message = "does not get through"
			}
			until(t, "say so", func() error { return w.says(message) })
			// Long enough for several tries, and for every lease to run out.
			pause(awayTTL + onTheWay + time.Second)
			back := time.Now()
			if what == "NATS" {
				s.nats.Start()
			} else {
				pg.Start()
			}
			until(t, "all to end", func() error { return s.ended(t, all) })
			until(t, "be whole", func() error { return s.whole(t, events.RunID{}) })
			until(t, "be in the feed", func() error { return s.fed(t) })
			if w.ended() {
				t.Errorf("the worker ended: %v", w.err)
			}
			w.stop(t)
			if n := p.once(t); n != runs {
				t.Errorf("%d effects, want %d", n, runs)
			}
			s.begunBefore(t, p, gone, back, what != "NATS")
		})
	}
}

// begunBefore wants an attempt before every request. While the database was
// away only calls that had begun before may have reached the provider.
func (s *site) begunBefore(t *testing.T, p *provider, gone, back time.Time, databaseAway bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	meanwhile := 0
	for _, r := range p.requests {
		var key events.Hash
		if err := key.UnmarshalText([]byte(r.Key)); err != nil {
			t.Fatal(err)
		}
		as, err := s.store.Attempts(t.Context(), key)
		if err != nil {
			t.Fatalf("request %d: %v", r.N, err)
		}
		begun := 0
		for _, a := range as {
			if a.StartedAt.Before(r.At) {
				begun++
			}
		}
		if begun == 0 {
			t.Errorf("request %d came before an attempt of it began", r.N)
		}
		if databaseAway && r.At.After(gone) && r.At.Before(back) {
			meanwhile++
			if as[begun-1].StartedAt.After(gone) {
				t.Errorf("request %d began while the database was away", r.N)
			}
			if r.At.Sub(gone) > awayTTL+onTheWay {
				t.Errorf("request %d came %s after the database had gone", r.N, r.At.Sub(gone))
			}
		}
	}
	t.Logf("%d requests, %d of them while the database was away (begun before)", len(p.requests), meanwhile)
}

// TestAwayAtStart starts worker and projector before their servers: they say
// what is missing, wait, and work when it is there.
func TestAwayAtStart(t *testing.T) {
	for _, what := range []string{"PostgreSQL", "NATS"} {
		t.Run(what, func(t *testing.T) {
			pg := testenv.StartPostgres(t)
			s := distributedOn(t, pg.DSN("postgres"))
			p := s.provider(t, keyed)
			r := s.submit(t, "start", "q", "ORD-1001")
			message := "NATS"
			if what == "NATS" {
				s.nats.Stop()
			} else {
				pg.Stop(pgserver.Fast)
				message = "database unavailable"
			}
			w := s.start(t, p, worker{apart: true})
			pr := s.projector(t)
			for _, proc := range []*process{w, pr} {
				until(t, "say what is missing", func() error {
					if proc.ended() {
						return errStop{fmt.Errorf("it ended with %v: %s", proc.err, proc.tail())}
					}
					return proc.says(message)
				})
				until(t, "say that it tries again", func() error { return proc.says("trying again") })
			}
			if n := p.count(); n != 0 {
				t.Errorf("%d requests before everything was there", n)
			}
			if what == "NATS" {
				s.nats.Start()
			} else {
				pg.Start()
			}
			until(t, "end", func() error { return s.resting(t, r.ID, false) })
			until(t, "be whole", func() error { return s.whole(t, r.ID) })
			w.stop(t)
			pr.stop(t)
			if n := p.once(t); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}
