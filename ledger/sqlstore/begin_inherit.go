package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/ledger"
)

// inherit makes an effect of an ended run of this lineage this run's own: in
// doubt, with an attempt that stands for the one nobody knows about, so that
// this run's history tells of it. It executes nothing. Probe, person and late evidence
// settle it as they would have for the run that has ended, whose call is told too.
func (b *beginning) inherit(ctx context.Context, e effectRow, as attempts) (ledger.Verdict, error) {
	of := as.latest()
	deadline := as.deadline()
	if deadline.IsZero() {
		deadline = b.h.now
	}
	e.Run, e.Call = b.l.RunID, b.in.Call
	e.Attempts++
	a := attemptRow{
		Attempt: ledger.Attempt{
			Number: e.Attempts, Token: b.in.Token, Run: b.l.RunID, Epoch: b.l.Epoch, Call: b.in.Call, Prior: true,
			StartedAt: b.h.now, Deadline: deadline, Outcome: ledger.Unclear, EndedAt: b.h.now,
			Error: fmt.Sprintf("not executed: it stands for attempt %d, of run %s, which has ended", of.Number, of.Run),
		},
		callAttempt: b.in.CallAttempt, argsDigest: e.argsDigest, continues: b.in.Continue, trace: b.in.Trace,
	}
	_, err := b.tx.Exec(ctx, `
		INSERT INTO effect_attempts (op_key, attempt, token, run_id, epoch, turn, call_index, call_attempt, args_digest, prior,
			started_at, deadline, outcome, error, ended_at, continues, trace, inherited)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'unclear', $13, $11, $14, $15, $16)`,
		e.OpKey, a.Number, a.Token, a.Run, a.Epoch, a.Call.Turn, a.Call.Index, a.callAttempt, a.argsDigest, a.Prior,
		a.StartedAt, a.Deadline, a.Error, a.continues, a.trace, true)
	if err != nil {
		return ledger.Verdict{}, fmt.Errorf("inherit effect %s: %w", e.OpKey, err)
	}
	_, err = b.tx.Exec(ctx, `UPDATE effects SET run_id = $2, turn = $3, call_index = $4, attempts = $5 WHERE op_key = $1`,
		e.OpKey, e.Run, e.Call.Turn, e.Call.Index, e.Attempts)
	if err != nil {
		return ledger.Verdict{}, fmt.Errorf("inherit effect %s: %w", e.OpKey, err)
	}
	evidence := fmt.Sprintf("begun by run %s call %s, which this run tries again", of.Run, of.Call)
	// The fact stays pending: the run cannot park before it has seen it, and so
	// asks a probe at once.
	if _, err := b.s.doubt(ctx, b.tx, &e, a, "inherited", evidence, b.h.now); err != nil {
		return ledger.Verdict{}, err
	}
	v := b.waits(ledger.InDoubt, e, append(as, a))
	v.Of = of.call()
	return v, nil
}
