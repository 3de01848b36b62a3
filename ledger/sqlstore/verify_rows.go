package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// foldGrace is how long folding may lag before verification calls it missing.
const foldGrace = time.Minute

// rows compares the rows that a page of events folds to with the stored ones.
// Rows of attempts still open are compared at the end.
func (v *runVerification) rows(ctx context.Context, from uint64, out ledger.Rows) error {
	if !v.folding {
		return nil // the history itself is at fault
	}
	if err := v.callRows(ctx, from, v.fold.Seq, out.Calls); err != nil {
		return fmt.Errorf("compare tool_call_records: %w", err)
	}
	var settled []ledger.ModelCallRow
	for _, m := range out.Models {
		if m.State != "unsettled" {
			settled = append(settled, m)
		}
	}
	if err := v.modelRows(ctx, settled); err != nil {
		return fmt.Errorf("compare model_calls: %w", err)
	}
	for _, a := range out.Artifacts {
		stored := ledger.Artifact{Run: v.run, Seq: a.Seq}
		err := v.tx.QueryRow(ctx, `SELECT tenant, name, content, bytes, at FROM artifacts WHERE run_id = $1 AND seq = $2`, v.run, a.Seq).
			Scan(&stored.Tenant, &stored.Name, &stored.Content, &stored.Bytes, &stored.At)
		if err = missing(v, err, "artifacts", a.Seq, func() string { return ledger.Differences(stored, a) }); err != nil {
			return fmt.Errorf("compare artifacts: %w", err)
		}
	}
	for _, a := range out.Versions {
		stored, err := scanVersion(v.tx.QueryRow(ctx, `SELECT `+versionColumns+` FROM artifact_versions v WHERE v.run_id = $1 AND v.seq = $2`, v.run, a.Seq))
		if err = missing(v, err, "artifact_versions", a.Seq, func() string { return ledger.Differences(stored, a) }); err != nil {
			return fmt.Errorf("compare artifact_versions: %w", err)
		}
	}
	return nil
}

// missing reports a row that is not there or differs.
func missing(v *runVerification, err error, table string, seq uint64, differences func() string) error {
	switch {
	case err == ErrNoRows: //nolint:errorlint // Row.Scan returns it as it is
		return v.note(seq, ledger.Incomplete, "its row in %s is missing", table)
	case err != nil:
		return err
	}
	if d := differences(); d != "" {
		return v.note(seq, ledger.Tampered, "its row in %s differs from the history: %s", table, d)
	}
	return nil
}

// callRows compares the records of one range of sequences, both ways.
func (v *runVerification) callRows(ctx context.Context, from, to uint64, want []ledger.CallRecord) error {
	rows, err := v.tx.Query(ctx, `SELECT `+callColumns+` FROM tool_call_records c WHERE c.run_id = $1 AND c.seq >= $2 AND c.seq <= $3 ORDER BY c.seq`, v.run, from, to)
	if err != nil {
		return err
	}
	defer rows.Close()
	stored := map[uint64]ledger.CallRecord{}
	for rows.Next() {
		c, err := scanCall(rows)
		if err != nil {
			return err
		}
		stored[c.Seq] = c
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, w := range want {
		c, ok := stored[w.Seq]
		delete(stored, w.Seq)
		var err error
		if !ok {
			err = ErrNoRows
		}
		if err := missing(v, err, "tool_call_records", w.Seq, func() string { return ledger.Differences(c, w) }); err != nil {
			return err
		}
	}
	for seq := range stored {
		if err := v.note(seq, ledger.Tampered, "a row in tool_call_records that the history does not give"); err != nil {
			return err
		}
	}
	return nil
}

func (v *runVerification) modelRows(ctx context.Context, want []ledger.ModelCallRow) error {
	if len(want) == 0 {
		return nil
	}
	from, to := want[0].Seq, want[0].Seq
	for _, m := range want {
		from, to = min(from, m.Seq), max(to, m.Seq)
	}
	rows, err := v.tx.Query(ctx, `SELECT `+modelColumns+` FROM model_calls m WHERE m.run_id = $1 AND m.seq >= $2 AND m.seq <= $3`, v.run, from, to)
	if err != nil {
		return err
	}
	defer rows.Close()
	stored := map[uint64]ledger.ModelCallRow{}
	for rows.Next() {
		m, err := scanModelCall(rows)
		if err != nil {
			return err
		}
		stored[m.Seq] = m
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, w := range want {
		m, ok := stored[w.Seq]
		var err error
		if !ok {
			err = ErrNoRows
		}
		if err := missing(v, err, "model_calls", w.Seq, func() string { return ledger.Differences(m, w) }); err != nil {
			return err
		}
	}
	return nil
}

// projections compares what can only be compared at the end of the history.
func (v *runVerification) projections(ctx context.Context) error {
	n, err := v.count(ctx, `
		SELECT (SELECT count(*) FROM tool_call_records WHERE run_id = $1 AND seq > $2)
			+ (SELECT count(*) FROM model_calls WHERE run_id = $1 AND seq > $2) + (SELECT count(*) FROM artifacts WHERE run_id = $1 AND seq > $2)
			+ (SELECT count(*) FROM artifact_versions WHERE run_id = $1 AND seq > $2)`, v.folded)
	if err != nil {
		return err
	}
	if n > 0 {
		if err := v.note(v.folded+1, ledger.Tampered, "%d rows of projections lie beyond seq %d, up to which the run is folded", n, v.folded); err != nil {
			return err
		}
	}
	if !v.folding || v.fold.Seq != v.folded || v.folded == 0 {
		return nil // said already: changed or missing events
	}
	if err := v.modelRows(ctx, v.fold.Unsettled()); err != nil {
		return fmt.Errorf("compare model_calls: %w", err)
	}
	n, err = v.count(ctx, `SELECT count(*) FROM model_calls WHERE run_id = $1 AND seq <= $2`, v.folded)
	if err != nil {
		return err
	}
	if n != v.fold.Totals.ModelCalls {
		if err := v.note(0, ledger.Tampered, "model_calls has %d rows, the history gives %d", n, v.fold.Totals.ModelCalls); err != nil {
			return err
		}
	}
	t, err := scanTotals(v.tx.QueryRow(ctx, `SELECT `+totalsColumns+` FROM run_summaries s WHERE s.run_id = $1`, v.run))
	if err = missing(v, err, "run_summaries", 0, func() string { return ledger.Differences(t, v.fold.Totals) }); err != nil {
		return fmt.Errorf("compare run_summaries: %w", err)
	}
	var open []byte
	if err := v.tx.QueryRow(ctx, `SELECT open FROM run_folds WHERE run_id = $1`, v.run).Scan(&open); err != nil {
		return err
	}
	if string(open) != string(v.fold.Open()) {
		return v.note(0, ledger.Tampered, "open rows are %s in run_folds, the history gives %s", open, v.fold.Open())
	}
	return nil
}

// begun is a destructive call that the history says was begun.
type begun struct {
	seq   uint64
	token events.ID
	opKey events.Hash
}

// begun checks that each begun call has its attempt.
func (v *runVerification) begun(ctx context.Context, bs []begun) error {
	if len(bs) == 0 {
		return nil
	}
	tokens := make([]events.ID, len(bs))
	for i, b := range bs {
		tokens[i] = b.token
	}
	rows, err := v.tx.Query(ctx, `SELECT token, op_key FROM effect_attempts WHERE run_id = $1 AND `+v.tx.InIDs("token", 2), v.run, tokens)
	if err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	defer rows.Close()
	keys := map[events.ID]events.Hash{}
	for rows.Next() {
		var id events.ID
		var key events.Hash
		if err := rows.Scan(&id, &key); err != nil {
			return fmt.Errorf("read attempts: %w", err)
		}
		keys[id] = key
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	for _, b := range bs {
		if keys[b.token] != b.opKey {
			if err := v.note(b.seq, ledger.Tampered, "begun with token %s, which is not an attempt of effect %s", b.token, b.opKey); err != nil {
				return err
			}
		}
	}
	return nil
}

// effects checks that what effects say about this run is in its history, or
// pending: that each attempt was begun, and how a settled effect ended.
func (v *runVerification) effects(ctx context.Context) error {
	facts, err := pendingFacts(ctx, v.tx, v.run)
	if err != nil {
		return err
	}
	v.report.Pending = int64(len(facts))
	pending := map[events.ID]bool{}
	for _, f := range facts {
		pending[f.ID] = true
		if err := v.note(0, ledger.Note, "fact %s of %s is pending: the next holder numbers it", f.Type, f.At.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	for after := (events.Hash{}); ; {
		page, err := v.attempts(ctx, after)
		if err != nil {
			return fmt.Errorf("read effects: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		if err := v.told(ctx, page, pending); err != nil {
			return err
		}
		after = page[len(page)-1].opKey
	}
}

// attempt is an attempt of an effect whose latest one is of this run.
type attempt struct {
	opKey     events.Hash
	token     events.ID
	state     events.EffectState
	settled   bool // the effect ended by it
	inherited bool // it stands for another run's: nothing was started
}

// attempts reads this run's attempts of the next effects; at least one of each.
func (v *runVerification) attempts(ctx context.Context, after events.Hash) ([]attempt, error) {
	rows, err := v.tx.Query(ctx, `
		SELECT e.op_key, a.token, e.state, coalesce(e.settled_token = a.token AND e.settled_at IS NOT NULL, false), a.inherited
		FROM (SELECT op_key, state, settled_token, settled_at FROM effects WHERE run_id = $1 AND op_key > $2 ORDER BY op_key LIMIT $3) e
		JOIN effect_attempts a ON a.op_key = e.op_key WHERE a.run_id = $1 ORDER BY e.op_key`, v.run, after[:], verifyPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var as []attempt
	for rows.Next() {
		var a attempt
		if err := rows.Scan(&a.opKey, &a.token, &a.state, &a.settled, &a.inherited); err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	return as, rows.Err()
}

// told checks that the history, or a pending fact, tells of attempts.
func (v *runVerification) told(ctx context.Context, as []attempt, pending map[events.ID]bool) error {
	outcomes := []events.Payload{events.ToolExecutionFinished{}, events.ToolExecutionError{}, events.EffectResolved{}}
	var ids []events.ID
	for _, a := range as {
		ids = append(ids, events.DerivedID(a.token, events.TypeOf(events.ToolExecutionStarted{})))
		for _, p := range outcomes {
			ids = append(ids, events.DerivedID(a.token, events.TypeOf(p)))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := v.tx.Query(ctx, `SELECT event_id FROM events WHERE run_id = $1 AND `+v.tx.InIDs("event_id", 2), v.run, ids)
	if err != nil {
		return fmt.Errorf("look for effects: %w", err)
	}
	defer rows.Close()
	has := map[events.ID]bool{}
	for rows.Next() {
		var id events.ID
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("look for effects: %w", err)
		}
		has[id] = true
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look for effects: %w", err)
	}
	told := func(t events.Payload, a attempt) bool {
		id := events.DerivedID(a.token, events.TypeOf(t))
		return has[id] || pending[id]
	}
	for _, a := range as {
		if !a.inherited && !told(events.ToolExecutionStarted{}, a) {
			if err := v.note(0, ledger.Incomplete, "effect %s has attempt %s, of which the history has no start", a.opKey, a.token); err != nil {
				return err
			}
		}
		if a.settled && !told(outcomes[0], a) && !told(outcomes[1], a) && !told(outcomes[2], a) {
			if err := v.note(0, ledger.Incomplete, "effect %s is %s by attempt %s, of which the history has no outcome", a.opKey, a.state, a.token); err != nil {
				return err
			}
		}
	}
	return nil
}
