package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// others is the verdict on an undecided effect of another run. While that run
// lives it is the one to find out; once it has ended nobody is, and a run of its
// lineage (a fork, a further attempt of the work, a child) takes its place.
func (b *beginning) others(ctx context.Context, e effectRow, as attempts) (ledger.Verdict, error) {
	owner, err := readOwner(ctx, b.tx, e.Run)
	if err != nil {
		return ledger.Verdict{}, err
	}
	if !owner.State.Ended() {
		if err := b.refuseAncestor(ctx, e); err != nil {
			return ledger.Verdict{}, err
		}
		return b.waits(ledger.Busy, e, as), nil
	}
	if owner.Root != b.h.run.Root || b.h.run.State == ledger.Cancelling {
		return b.waits(ledger.Busy, e, as), nil // its own lineage, or a person, sees to it
	}
	if b.mayRepeat(e, as) {
		return b.next(ctx, e, as)
	}
	if e.State == events.EffectStarted {
		active, err := b.s.active(ctx, b.tx, as, owner, b.h.now)
		if err != nil {
			return ledger.Verdict{}, err
		}
		if active != "" { // it may still say how it ended
			return b.waits(ledger.Busy, e, as), nil
		}
		if err := b.s.putInDoubt(ctx, b.tx, &e, as.latest(), "takeover", "its run has ended without its outcome"); err != nil {
			return ledger.Verdict{}, err
		}
	}
	// A further attempt of a fork does not have the history of the attempt before.
	if b.h.run.ForkOf.IsZero() || as.latest().Run == b.h.run.RetryOf {
		return b.inherit(ctx, e, as)
	}
	e.Run, e.Call = b.l.RunID, b.in.Call // its history tells of the attempt already
	err = one(b.tx.Exec(ctx, `UPDATE effects SET run_id = $2, turn = $3, call_index = $4 WHERE op_key = $1`,
		e.OpKey, e.Run, e.Call.Turn, e.Call.Index))
	if err != nil {
		return ledger.Verdict{}, fmt.Errorf("adopt effect %s of ended run %s: %w", e.OpKey, owner.ID, err)
	}
	return b.waits(ledger.InDoubt, e, as), nil
}

// readOwner reads a run without locking it, which would be out of order. What
// is read stays true: a run never leaves its end, nor its lineage.
func readOwner(ctx context.Context, tx Tx, id events.RunID) (ledger.Run, error) {
	r, err := scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1`, id))
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return ledger.Run{}, fmt.Errorf("read run %s, which has the effect: %w", id, err)
	}
	return r, nil
}
