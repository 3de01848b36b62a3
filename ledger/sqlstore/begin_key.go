package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// scopeKey is what the scope is, for this run. A run without a session or
// owner shares the effect with its lineage only: two strangers must not be
// taken for one.
func scopeKey(scope ledger.Scope, r ledger.Run) string {
	switch {
	case scope == ledger.ScopeTenant:
		return r.Tenant
	case scope == ledger.ScopeOwner && r.Owner != "":
		return r.Owner
	case scope == ledger.ScopeSession && r.SessionID != "":
		return r.SessionID
	}
	return r.Root.String()
}

// lockGeneration locks the effect that this call means: the latest generation,
// or the one whose outcome is the call's own. found is false when there is none
// or its window is over; then the row returned carries only base key,
// generation and op key of the one to begin.
func (b *beginning) lockGeneration(ctx context.Context) (e effectRow, found bool, err error) {
	key := scopeKey(b.in.Scope, b.h.run)
	fresh := effectRow{base: ledger.BaseKey(b.h.run.Tenant, b.in.Scope, key, b.in.Tool, b.in.Identity)}
	fresh.ScopeKey = key
	const latest = `SELECT ` + effectColumns + ` FROM effects e WHERE e.base_key = $1 ORDER BY e.generation DESC LIMIT 1 FOR UPDATE`
	for {
		e, err = scanEffect(b.tx.QueryRow(ctx, latest, fresh.base))
		if errors.Is(err, ErrNoRows) {
			fresh.Generation = 1
			break
		}
		if err != nil {
			return effectRow{}, false, fmt.Errorf("lock latest generation of %s: %w", fresh.base, err)
		}
		// While we waited for the lock a later generation may have been begun.
		var top int
		if err := b.tx.QueryRow(ctx, `SELECT max(generation) FROM effects WHERE base_key = $1`, fresh.base).Scan(&top); err != nil {
			return effectRow{}, false, fmt.Errorf("read latest generation of %s: %w", fresh.base, err)
		}
		if top != e.Generation {
			continue
		}
		if b.h.now, err = b.tx.Now(ctx); err != nil {
			return effectRow{}, false, err
		}
		own, ok, err := b.ownGeneration(ctx, e)
		if err != nil || ok {
			return own, ok, err
		}
		if !aged(e, b.in.Window, b.h.now) {
			return e, true, nil
		}
		fresh.Generation = e.Generation + 1
		break
	}
	fresh.OpKey = ledger.OpKey(fresh.base, fresh.Generation)
	return fresh, false, nil
}

// ownGeneration finds the generation that this very call settled, so that it
// always gets its own outcome, however many windows ago.
func (b *beginning) ownGeneration(ctx context.Context, latest effectRow) (effectRow, bool, error) {
	var key events.Hash
	err := b.tx.QueryRow(ctx, `
		SELECT e.op_key FROM effects e JOIN effect_attempts a ON a.op_key = e.op_key AND a.token = e.settled_token
		WHERE e.base_key = $1 AND a.run_id = $2 AND a.turn = $3 AND a.call_index = $4 AND e.state IN ('applied', 'abandoned')
		ORDER BY e.generation DESC LIMIT 1`,
		latest.base, b.l.RunID, b.in.Call.Turn, b.in.Call.Index).Scan(&key)
	switch {
	case errors.Is(err, ErrNoRows):
		return effectRow{}, false, nil
	case err != nil:
		return effectRow{}, false, fmt.Errorf("read own generation of %s: %w", latest.base, err)
	case key == latest.OpKey:
		return latest, true, nil
	}
	e, err := lockEffect(ctx, b.tx, key)
	return e, err == nil, err
}

// aged reports whether the window of a settled effect is over. It runs from
// the outcome, in database time. Of the recorded and the declared window the
// longer one counts. What is not decided never ages, and what did not take
// effect needs no new generation, unless evidence says that it did.
func aged(e effectRow, declared time.Duration, now time.Time) bool {
	window := max(e.window, declared)
	switch {
	case !decided(e.State), e.State == events.EffectNotApplied && !e.Contradicted:
		return false
	case e.window <= 0 || declared <= 0: // none declared, or for ever
		return false
	}
	return !now.Before(e.SettledAt.Add(window))
}
