//go:build daybook_faults

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
	"github.com/daybookhq/daybook/ledger"
)

// TestRestoredDatabase: RELIABILITY row 16. It puts an older copy of PostgreSQL's data back after
// effects were executed that it does not know of: nobody claims or begins until
// ledgerctl reconcile was run, whoever looks first, also when nobody had
// projected any of it. Then nothing happens twice, and what nobody can know is
// in doubt.
func TestRestoredDatabase(t *testing.T) {
	const early, late = 6, 14
	type step int
	const (
		liveOn    step = iota + 1 // worker and projector live through it
		workerOne                 // everything is started anew, a worker first
		unread                    // no projector ran since the backup
	)
	for how, name := range map[step]string{liveOn: "under those who work", workerOne: "and workers are there before a projector", unread: "and no projector has read what happened since"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(openDir(t), "data")
			pg := testenv.StartPostgresWith(t, pgserver.Config{DataDir: dir})
			s := distributedOn(t, pg.DSN("postgres"))
			p := s.provider(t, opaque)
			p.set(func(p *provider) { p.known = nil }) // it goes away, and then it does not know them
			w := s.start(t, p, worker{apart: true, ttl: 5 * time.Second})
			pr := s.projector(t)
			all := s.queueRefunds(t, "restore", early+late)
			until(t, "be in the middle of it", func() error { return atLeast(p.count(), early) })
			if how == unread {
				pr.kill()
			}
			// A backup in the middle of the load, of a server that stands still.
			backup := filepath.Join(filepath.Dir(dir), "backup")
			pg.Stop(pgserver.Fast)
			cp(t, dir, backup)
			pg.Start()
			atRest := func() error { // or in doubt, because the server was away
				for _, r := range all {
					if err := s.resting(t, r.ID, true); err != nil {
						return err
					}
				}
				return nil
			}
			until(t, "every refund to be tried", atRest)
			if how == liveOn {
				until(t, "the feed to be there", func() error { return s.fed(t) })
			} else {
				w.kill()
				pr.kill()
			}
			// What happened is on the disk, the database is not.
			pg.Stop(pgserver.Immediate)
			if out, err := exec.Command("sh", "-c", `rm -rf "$1" && mv "$2" "$1"`, "sh", dir, backup).CombinedOutput(); err != nil {
				t.Fatalf("put the backup back: %v: %s", err, out)
			}
			requests := p.count()
			pg.Start()
			if n := s.number(t, `SELECT count(*) FROM runs WHERE state <> 'finished'`); n == 0 {
				t.Fatal("void: the backup knows of all refunds")
			}
			if how != liveOn {
				w = s.start(t, p, worker{apart: true, ttl: 5 * time.Second})
			}
			until(t, "the worker to refuse", func() error { return w.says("ledgerctl reconcile") })
			if how != liveOn {
				pr = s.projector(t)
			}
			pause(6 * time.Second) // every lease runs out, and the worker sweeps 100 times
			if n := p.count(); n != requests {
				t.Errorf("%d requests at the provider before reconcile, there had been %d", n, requests)
			}
			if out, code := s.ctl(t, "why", all[len(all)-1].ID.String()); code != 0 || !strings.Contains(out, "reconcile") {
				t.Errorf("ledgerctl why exits with %d and does not name reconcile:\n%s", code, out)
			}
			out, code := s.ctl(t, "reconcile", "--nats", s.nats.URL())
			if code != 0 {
				t.Fatalf("ledgerctl reconcile exits with %d:\n%s", code, out)
			}
			until(t, "come to rest", atRest)
			doubts, refused := s.settleDoubts(t, p)
			until(t, "all to end", func() error { return s.ended(t, all) })
			s.healedBut(t, p, all, -1, refused)
			if out, code := s.ctl(t, "verify"); code == 3 || code == 4 {
				t.Errorf("ledgerctl verify exits with %d:\n%s", code, out)
			}
			w.stop(t)
			pr.stop(t)
			t.Logf("%d of %d were in doubt; reconcile said:\n%s", doubts, len(all), out)
		})
	}
}

// settleDoubts resolves every effect in doubt by the provider's log, as a
// person would, and says how many of them had not happened.
func (s *site) settleDoubts(t *testing.T, p *provider) (all, refused int) {
	t.Helper()
	happened := map[string]bool{}
	for _, e := range p.effects(t) {
		happened[e.Key] = true
	}
	es, err := s.store.Effects(t.Context(), ledger.EffectFilter{States: []events.EffectState{events.EffectInDoubt}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		state := events.EffectNotApplied
		if happened[e.OpKey.String()] {
			state = events.EffectApplied
		} else {
			refused++
		}
		until(t, "resolve", func() error {
			_, err := s.store.Resolve(t.Context(), ledger.Resolution{OpKey: e.OpKey, State: state, By: "tester", Note: "the provider's log"})
			return err
		})
	}
	return len(es), refused
}

func cp(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}
