package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// judge waits until everything is at rest and then compares the record with
// the provider's books. Faults have ended at healed.
func (t *torture) judge(ctx context.Context, r *Report, healed time.Time) error {
	if err := t.rest(ctx, r, t.atRest); err != nil {
		return err
	}
	r.RestSeconds = time.Since(healed).Seconds()
	log, err := readLines[Effect](effectsLog(t.cfg.Dir))
	if err != nil {
		return err
	}
	doubts, err := t.judgeEffects(ctx, r, log)
	if err != nil {
		return err
	}
	// Whoever looks into the provider's log knows: now every run can end.
	if err := t.resolve(ctx, doubts, byKey(log)); err != nil {
		return err
	}
	if err := t.rest(ctx, r, t.allEnded); err != nil {
		return err
	}
	if err := t.verify(ctx, r); err != nil {
		return err
	}
	if err := t.judgeRuns(ctx, r); err != nil {
		return err
	}
	if err := t.judgeInvoice(ctx, r); err != nil {
		return err
	}
	p := t.provider
	p.mu.Lock()
	r.Dropped, r.Lied = p.counts.dropped, p.counts.failed
	p.mu.Unlock()
	t.figures(r)
	r.judgeFloors(t.cfg.Runs, len(t.cfg.Only) == 0)
	return nil
}

// stuckAfter is how many times Drain runs that get somewhere may take.
const stuckAfter = 5

// rest waits until what returns nothing any more. What it still returns when
// nothing has moved for as long as Drain is stuck; and so is what moves and
// does not come to an end.
func (t *torture) rest(ctx context.Context, r *Report, what func(context.Context) ([]openRun, error)) error {
	began, moved, last := time.Now(), time.Now(), position{}
	for {
		open, err := what(ctx)
		now := time.Now()
		if p := where(open); err == nil && p != last {
			last, moved = p, now
		}
		over := now.Sub(moved) > t.cfg.Drain || now.Sub(began) > stuckAfter*t.cfg.Drain
		switch {
		case err == nil && len(open) == 0:
			return nil
		case over && err != nil:
			return fmt.Errorf("wait for rest: %w", err)
		case over:
			for _, o := range open {
				r.note(&r.Stuck, "%s after the last fault and nothing moved for %s: %s", now.Sub(began).Round(time.Second), now.Sub(moved).Round(time.Second), o.text)
			}
			return nil
		case err != nil && !errors.Is(err, ledger.ErrUnavailable):
			return err
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// openRun is a run that has not ended.
type openRun struct {
	text   string
	events int64
}

// position is how far open runs have come.
type position struct {
	open   int
	events int64
}

func where(open []openRun) position {
	p := position{open: len(open)}
	for _, o := range open {
		p.events += o.events
	}
	return p
}

// openRuns lists all runs that have not ended.
func (t *torture) openRuns(ctx context.Context, f func(ledger.Run) bool) (out []openRun, err error) {
	var before events.RunID
	for {
		rs, err := t.watch.store.Summaries(ctx, ledger.RunFilter{Tenant: tenant, States: openStates, Limit: 1000, Before: before})
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			if f(r.Run) {
				out = append(out, openRun{events: r.Events, text: fmt.Sprintf("run %s is %s %s %s, epoch %d of %s, lease until %s",
					r.ID, r.State, r.ParkReason, r.ParkDetail, r.Epoch, r.Worker, r.LeaseUntil.Format(time.TimeOnly))})
			}
		}
		if len(rs) == 0 {
			return out, nil
		}
		before = rs[len(rs)-1].ID
	}
}

// atRest lists what can still go on by itself.
func (t *torture) atRest(ctx context.Context) ([]openRun, error) {
	waits := map[events.RunID]bool{} // for a person
	err := t.effects(ctx, func(e ledger.Effect) error {
		waits[e.Run] = waits[e.Run] || e.State == events.EffectInDoubt && e.Recovery.Kind == ledger.RecoveryNone
		return nil
	}, events.EffectInDoubt)
	if err != nil {
		return nil, err
	}
	return t.openRuns(ctx, func(r ledger.Run) bool { return !(forPerson(r) && waits[r.ID]) })
}

func (t *torture) allEnded(ctx context.Context) ([]openRun, error) {
	return t.openRuns(ctx, func(ledger.Run) bool { return true })
}

// effects calls f with every effect in one of the states; none = all.
func (t *torture) effects(ctx context.Context, f func(ledger.Effect) error, states ...events.EffectState) error {
	var after events.Hash
	for {
		es, err := t.watch.store.Effects(ctx, ledger.EffectFilter{Tenant: tenant, States: states, Limit: 1000, After: after})
		if err != nil {
			return err
		}
		for _, e := range es {
			if err := f(e); err != nil {
				return err
			}
		}
		if len(es) == 0 {
			return nil
		}
		after = es[len(es)-1].OpKey
	}
}

func byKey(log []Effect) map[string]int {
	m := map[string]int{}
	for _, e := range log {
		m[e.Key]++
	}
	return m
}

// judgeEffects holds every effect against the provider's log and returns those in doubt.
func (t *torture) judgeEffects(ctx context.Context, r *Report, log []Effect) (doubts []ledger.Effect, err error) {
	r.ProviderEffects = len(log)
	items, keys := map[string]int{}, byKey(log)
	for _, e := range log {
		if items[e.Item]++; items[e.Item] > 1 {
			r.note(&r.DuplicateEffects, "%s %s happened %d times, now under key %.16s", e.Kind, e.Item, items[e.Item], e.Key)
		}
	}
	known := map[string]bool{}
	err = t.effects(ctx, func(e ledger.Effect) error {
		key := e.OpKey.String()
		known[key] = true
		there := keys[key] > 0
		switch e.State {
		case events.EffectApplied:
			if !there {
				r.note(&r.ToldDoneButNot, "%s %s of run %s is applied (by %s) and not in the provider's log", e.Tool, key, e.Run, e.SettledBy)
			}
		case events.EffectNotApplied:
			if there {
				r.note(&r.ToldFailedButIs, "%s %s of run %s is not_applied (by %s) and in the provider's log", e.Tool, key, e.Run, e.SettledBy)
			}
		case events.EffectInDoubt:
			doubts = append(doubts, e)
			if there {
				r.InDoubtHappened++
			} else {
				r.InDoubtNot++
			}
		}
		return nil
	})
	for key := range keys {
		if !known[key] {
			r.note(&r.UnknownEffects, "the provider has an effect under key %s, which no attempt has", key)
		}
	}
	return doubts, err
}

// resolve says about each effect in doubt what the provider's log says.
func (t *torture) resolve(ctx context.Context, doubts []ledger.Effect, keys map[string]int) error {
	for _, e := range doubts {
		state := events.EffectNotApplied
		if keys[e.OpKey.String()] > 0 {
			state = events.EffectApplied
		}
		for {
			_, err := t.watch.store.Resolve(ctx, ledger.Resolution{OpKey: e.OpKey, State: state, By: "torture", Note: "the provider's log"})
			if err == nil || errors.Is(err, ledger.ErrNotInDoubt) { // late evidence was faster
				break
			}
			if !errors.Is(err, ledger.ErrNotQuiescent) && !errors.Is(err, ledger.ErrUnavailable) {
				return err
			}
			if !sleep(ctx, 200*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// verify waits until the projections are complete, and proves the record.
func (t *torture) verify(ctx context.Context, r *Report) error {
	began := time.Now()
	deadline := began.Add(t.cfg.Drain)
	var folded time.Time
	for {
		unfed, err := t.watch.store.Unfed(ctx, 1)
		if err != nil {
			return err
		}
		if len(unfed) == 0 && folded.IsZero() {
			folded = time.Now()
			r.FeedSeconds = folded.Sub(began).Seconds()
		}
		proof := time.Now()
		var found []ledger.Finding
		report, err := t.watch.store.Verify(ctx, events.RunID{}, func(f ledger.Finding) error {
			if f.Kind != ledger.Note {
				found = append(found, f)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if late := time.Now().After(deadline); report.Tampered == 0 && report.Incomplete == 0 && len(unfed) == 0 || late {
			r.Events, r.VerifySeconds = int(report.Events), time.Since(proof).Seconds()
			for _, f := range found {
				kind := &r.Incomplete
				if f.Kind == ledger.Tampered {
					kind = &r.Tampered
				}
				r.note(kind, "verify: %s: run %s seq %d: %s", f.Kind, f.Run, f.Seq, f.Text)
			}
			if len(unfed) > 0 {
				r.note(&r.Incomplete, "events are not in the feed, the first is %s of run %s", unfed[0].Envelope().Type, unfed[0].Envelope().RunID)
			}
			return nil
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}
