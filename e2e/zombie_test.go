//go:build daybook_faults

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// freeze stops a process as an overloaded host would, and returns once it stands still.
func (p *process) freeze() error {
	p.signal(syscall.SIGSTOP)
	return poll(patience, func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		state := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[0]
		if state != "T" {
			return fmt.Errorf("state is %s", state)
		}
		return nil
	})
}

// beyondBase counts valid events of an epoch that lie beyond the base of a later one.
const beyondBase = `SELECT count(*) FROM events e JOIN run_epochs r ON r.run_id = e.run_id AND r.epoch > e.epoch AND e.seq > r.base_seq`

// lateCalls counts model calls whose answer came from a holder that was none any more.
const lateCalls = `SELECT count(*) FROM model_calls WHERE state = 'late'`

// TestZombieInsideACall pauses a worker while the provider holds its request,
// lets another one take over, and wakes it: the money moves once, what the
// zombie learns late is kept, and it writes nothing else.
// RELIABILITY row 13.
func TestZombieInsideACall(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := distributedSite(t)
			p := s.provider(t, kind)
			started, frozen := make(chan *process, 1), make(chan error, 1)
			p.set(func(p *provider) {
				p.before = func(r request) {
					if r.N == 1 {
						frozen <- (<-started).freeze()
					}
				}
			})
			r := s.submit(t, "zombie", "q", "ORD-1001")
			zombie := s.start(t, p, worker{embeds: true, ttl: 3 * time.Second, timeout: 3 * time.Second, more: []string{"--stubborn"}})
			started <- zombie
			if err := <-frozen; err != nil {
				t.Fatalf("freeze: %v", err)
			}
			held, err := s.store.Run(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			second := s.start(t, p, worker{embeds: true})
			until(t, "the second worker to finish or park the run", func() error { return s.resting(t, r.ID, kind == opaque) })
			between, err := s.store.Run(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			if between.Epoch <= held.Epoch {
				t.Errorf("void: the run is in epoch %d, the zombie held it in %d", between.Epoch, held.Epoch)
			}
			zombie.signal(syscall.SIGCONT)
			until(t, "be fenced", func() error { return zombie.says("left the run to another worker") })
			until(t, "the run to end", func() error { return s.resting(t, r.ID, false) })
			until(t, "the zombie's outcome in the ledger", func() error { return firstAttempt(t, s, r.ID, held.Epoch) })
			until(t, "be whole", func() error {
				if err := s.settled(t, r.ID); err != nil {
					return err
				}
				return s.whole(t, r.ID)
			})
			zombie.stop(t)
			second.stop(t)
			if n := p.once(t); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
			e, _ := s.effect(t, r.ID)
			if e.State != events.EffectApplied || e.Outcome == nil || e.PossibleDuplicate || e.Contradicted {
				t.Errorf("effect is %s, outcome %v, possible duplicate %v, contradicted %v: want applied with its outcome", e.State, e.Outcome, e.PossibleDuplicate, e.Contradicted)
			}
			if n := s.number(t, beyondBase); n != 0 {
				t.Errorf("%d events of the zombie are valid beyond the base", n)
			}
			if end, err := s.store.Run(t.Context(), r.ID); err != nil || end.State != ledger.Finished {
				t.Errorf("run is %s, %v: want finished", end.State, err)
			}
			if kind == opaque && between.State != ledger.Parked {
				t.Errorf("run was %s before the late outcome came, want parked", between.State)
			}
			if kind == probe && p.probes == 0 {
				t.Error("the provider was not asked")
			}
		})
	}
}

// firstAttempt says why the zombie's attempt has no outcome.
func firstAttempt(t *testing.T, s *site, id events.RunID, epoch uint64) error {
	e, ok := s.effect(t, id)
	if !ok {
		return fmt.Errorf("no effect")
	}
	as, err := s.store.Attempts(t.Context(), e.OpKey)
	if err != nil {
		return err
	}
	if as[0].Epoch != epoch || as[0].Outcome != ledger.Applied {
		return fmt.Errorf("first attempt: epoch %d, outcome %q: want %d, applied", as[0].Epoch, as[0].Outcome, epoch)
	}
	return nil
}

// TestZombieWrites pauses a worker right before it writes what only the holder
// of the run may write, for longer than its lease.
// RELIABILITY row 13.
func TestZombieWrites(t *testing.T) {
	tests := []struct {
		point, kind string
		aside       bool // something of it reaches the journal and is set aside
	}{
		{"begin.before_send@1", opaque, false},
		{"model.after_reply@2", keyed, true},
		{"finish.after_record@1", keyed, false},
		{"end.before_send@1", probe, false},
		{"end.before_send@1", opaque, false},
	}
	for _, tt := range tests {
		t.Run(tt.point+"-"+tt.kind, func(t *testing.T) {
			s := distributedSite(t)
			p := s.provider(t, tt.kind)
			counts := s.logs + "/zombie.counts"
			r := s.submit(t, "zombie", "q", "ORD-1001")
			point, nth, _ := strings.Cut(tt.point, "@")
			// It dawdles at the point, and is frozen there: everything of the process
			// stands still until the other one is done.
			zombie := s.start(t, p, worker{faults: point + "=delay:5s@" + nth, counts: counts, ttl: 3 * time.Second, timeout: 3 * time.Second})
			until(t, "freeze", func() error {
				c, err := fault.Counts(counts)
				if err == nil && c[point].Fired == 0 {
					err = fmt.Errorf("%s has not been reached", tt.point)
				}
				return err
			})
			if err := zombie.freeze(); err != nil {
				t.Fatal(err)
			}
			held, err := s.store.Run(t.Context(), r.ID)
			if err != nil || held.State.Ended() {
				t.Fatalf("void: the run is %s when its worker freezes, %v", held.State, err)
			}
			second := s.start(t, p, worker{})
			until(t, "the second worker to finish, or park what is in doubt", func() error { return s.resting(t, r.ID, true) })
			if end, _ := s.store.Run(t.Context(), r.ID); end.Epoch <= held.Epoch {
				t.Fatalf("void: the run was not taken over, its epoch is %d", end.Epoch)
			}
			zombie.signal(syscall.SIGCONT)
			until(t, "the run to end", func() error { return s.resting(t, r.ID, false) })
			until(t, "be fenced", func() error { return zombie.says("left the run to another worker") })
			if tt.aside {
				until(t, "be set aside", func() error {
					if n := s.number(t, `SELECT count(*) FROM set_aside WHERE epoch = $1`, int64(held.Epoch)); n == 0 {
						return fmt.Errorf("nothing of the zombie was set aside")
					}
					return nil
				})
			}
			until(t, "be whole", func() error {
				if err := s.settled(t, r.ID); err != nil {
					return err
				}
				return s.whole(t, r.ID)
			})
			late := tt.point == "model.after_reply@2"
			if late { // its fact is in the record, and is folded some time after
				until(t, "count what the zombie paid for", func() error {
					if n := s.number(t, lateCalls); n == 0 {
						return errors.New("no late model call")
					}
					return nil
				})
			}
			zombie.stop(t)
			second.stop(t)
			if n := p.once(t); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
			if n := s.number(t, beyondBase); n != 0 {
				t.Errorf("%d events of the zombie are valid beyond the base", n)
			}
			if late {
				if n := s.number(t, lateCalls); n != 1 {
					t.Errorf("%d late model calls: want the zombie's answer to count as cost once", n)
				}
			}
		})
	}
}

// TestCallLongerThanALease is no zombie: heartbeats carry a call that takes
// longer than three leases.
func TestCallLongerThanALease(t *testing.T) {
	s := embeddedSite(t)
	p := s.provider(t, opaque)
	p.set(func(p *provider) { p.delay = 10 * time.Second })
	r := s.submit(t, "slow", "q", "ORD-1001")
	w := s.start(t, p, worker{timeout: time.Minute, ttl: 3 * time.Second})
	until(t, "end", func() error { return s.resting(t, r.ID, true) })
	w.stop(t)
	if end, err := s.store.Run(t.Context(), r.ID); err != nil || end.State != ledger.Finished || end.Epoch != 1 {
		t.Errorf("run is %s %s, epoch %d, %v: want finished in epoch 1", end.State, end.ParkReason, end.Epoch, err)
	}
	if n := p.once(t); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}
