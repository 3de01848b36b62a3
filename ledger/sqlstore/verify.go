package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// verifyPage is how many rows verification holds at once.
const verifyPage = 500

// Verify implements ledger.Verifier. Each run is read in one snapshot, so that
// what goes on meanwhile is no fault.
func (s *Store) Verify(ctx context.Context, run events.RunID, f func(ledger.Finding) error) (ledger.VerifyReport, error) {
	return s.VerifyWatched(ctx, run, func(int64) {}, f)
}

// VerifyWatched implements ledger.Watched.
func (s *Store) VerifyWatched(ctx context.Context, run events.RunID, done func(events int64), f func(ledger.Finding) error) (ledger.VerifyReport, error) {
	var sum ledger.VerifyReport
	if !run.IsZero() {
		r, seen, err := s.verifyRun(ctx, run, done, f)
		if err == nil && !seen {
			err = fmt.Errorf("verify run %s: %w", run, ledger.ErrNotFound)
		}
		return r, err
	}
	for after := (events.RunID{}); ; {
		next, ok, err := s.nextRun(ctx, after)
		if err != nil {
			return sum, err
		}
		if !ok {
			wrong, err := s.verifyCosts(ctx, f)
			sum.Tampered += wrong
			return sum, err
		}
		before := sum.Events
		r, _, err := s.verifyRun(ctx, next, func(n int64) { done(before + n) }, f)
		sum.Runs += r.Runs
		sum.Events += r.Events
		sum.SetAside += r.SetAside
		sum.Pending += r.Pending
		sum.Tampered += r.Tampered
		sum.Incomplete += r.Incomplete
		if err != nil {
			return sum, err
		}
		after = next
	}
}

// nextRun finds the next run that any table knows, so that events of a run that
// was deleted, or forged, are seen.
func (s *Store) nextRun(ctx context.Context, after events.RunID) (run events.RunID, ok bool, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		return tx.QueryRow(ctx, `
			SELECT id FROM (SELECT id FROM runs WHERE id > $1 ORDER BY id LIMIT 1) a
			UNION ALL SELECT run_id FROM (SELECT run_id FROM events WHERE run_id > $1 ORDER BY run_id LIMIT 1) b
			UNION ALL SELECT run_id FROM (SELECT run_id FROM set_aside WHERE run_id > $1 ORDER BY run_id LIMIT 1) c
			UNION ALL SELECT run_id FROM (SELECT run_id FROM tool_call_records WHERE run_id > $1 ORDER BY run_id LIMIT 1) d
			UNION ALL SELECT run_id FROM (SELECT run_id FROM model_calls WHERE run_id > $1 ORDER BY run_id LIMIT 1) e
			ORDER BY id LIMIT 1`, firstID(after)).Scan(&run)
	})
	if errors.Is(err, ErrNoRows) {
		return run, false, nil
	}
	if err != nil {
		return run, false, fmt.Errorf("find the run after %s: %w", after, err)
	}
	return run, true, nil
}

// runVerification is the verification of one run in one snapshot.
type runVerification struct {
	tx     Tx
	run    events.RunID
	report ledger.VerifyReport
	done   func(events int64)
	found  func(ledger.Finding) error
	check  *ledger.RunCheck

	folded, top uint64
	fold        *ledger.Fold
	folding     bool // every event up to now could be folded
}

func (s *Store) verifyRun(ctx context.Context, run events.RunID, done func(events int64), f func(ledger.Finding) error) (report ledger.VerifyReport, seen bool, err error) {
	var findings []ledger.Finding // of this attempt; handed on outside of the transaction
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		findings = nil
		v := &runVerification{tx: tx, run: run, done: done, folding: true, fold: ledger.NewFold(run)}
		v.found = func(x ledger.Finding) error {
			switch x.Kind {
			case ledger.Tampered:
				v.report.Tampered++
			case ledger.Incomplete:
				v.report.Incomplete++
			}
			if len(findings) < maxFindings {
				findings = append(findings, x)
			}
			return nil
		}
		seen, err = v.all(ctx)
		report = v.report
		return err
	})
	if err != nil {
		return report, seen, fmt.Errorf("verify run %s: %w", run, err)
	}
	for _, x := range findings {
		if err := f(x); err != nil {
			return report, seen, err
		}
	}
	return report, seen, nil
}

// maxFindings bounds what is told about one run; everything is counted.
const maxFindings = 10_000

func (v *runVerification) note(seq uint64, kind ledger.FindingKind, format string, args ...any) error {
	return v.found(ledger.Finding{Run: v.run, Seq: seq, Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// origin is the hash of the event that a fork, or a run of a session, goes on from;
// zero if it is not there, or not in the session.
func (v *runVerification) origin(ctx context.Context, run ledger.Run) (h events.Hash, err error) {
	of, seq := run.ForkOf, run.ForkSeq
	q := `SELECT hash FROM events WHERE run_id = $1 AND seq = $2`
	if of.IsZero() {
		of, seq = run.Continues.Run, run.Continues.Seq
		q = `SELECT e.hash FROM events e JOIN runs r ON r.id = e.run_id
			WHERE e.run_id = $1 AND e.seq = $2 AND r.tenant = $3 AND r.session_id = $4 AND r.session_place BETWEEN 1 AND $5`
	}
	args := []any{of, seq}
	if run.ForkOf.IsZero() {
		args = append(args, run.Tenant, run.SessionID, run.SessionPlace)
	}
	err = v.tx.QueryRow(ctx, q, args...).Scan(&h)
	if err != nil && !errors.Is(err, ErrNoRows) {
		return h, fmt.Errorf("read event %d of run %s: %w", seq, of, err)
	}
	return h, nil
}

func (v *runVerification) all(ctx context.Context) (seen bool, err error) {
	known := true
	run, err := scanRun(v.tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1`, v.run))
	if errors.Is(err, ErrNoRows) {
		known, run.ID = false, v.run
	} else if err != nil {
		return false, err
	}
	epochs, err := v.epochs(ctx)
	if err != nil {
		return false, err
	}
	v.check = ledger.NewRunCheck(run, known, epochs, v.found)
	if !run.ForkOf.IsZero() || !run.Continues.IsZero() {
		origin, err := v.origin(ctx, run)
		if err != nil {
			return false, err
		}
		v.check.Origin(origin)
	}
	v.report.Runs = 1
	text, folded, top, topAt, err := foldState(ctx, v.tx, v.run)
	if err != nil {
		return false, err
	}
	v.folded, v.top = folded, top
	if err := v.events(ctx); err != nil {
		return false, err
	}
	if err := v.setAside(ctx); err != nil {
		return false, err
	}
	if !known && v.report.Events == 0 && v.report.SetAside == 0 {
		n, err := v.count(ctx, `SELECT (SELECT count(*) FROM tool_call_records WHERE run_id = $1) + (SELECT count(*) FROM model_calls WHERE run_id = $1)`)
		if err != nil || n == 0 {
			return false, err
		}
	}
	if err := v.check.End(top); err != nil {
		return true, err
	}
	if text != "" {
		if err := v.note(0, ledger.Incomplete, "the projector says: %s", text); err != nil {
			return true, err
		}
	} else if folded < v.check.Top() {
		now, err := v.tx.Now(ctx)
		if err != nil {
			return true, err
		}
		kind := ledger.Incomplete
		if now.Sub(topAt) < foldGrace {
			kind = ledger.Note // the projector is on its way
		}
		if err := v.note(folded+1, kind, "folded to seq %d, the archive ends at %d", folded, v.check.Top()); err != nil {
			return true, err
		}
	}
	if err := v.projections(ctx); err != nil {
		return true, err
	}
	return true, v.effects(ctx)
}

func (v *runVerification) count(ctx context.Context, q string, args ...any) (n int64, err error) {
	err = v.tx.QueryRow(ctx, q, append([]any{v.run}, args...)...).Scan(&n)
	return n, err
}

func (v *runVerification) epochs(ctx context.Context) (es []ledger.EpochBase, err error) {
	rows, err := v.tx.Query(ctx, `SELECT epoch, base_seq, base_hash FROM run_epochs WHERE run_id = $1 ORDER BY epoch`, v.run)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e ledger.EpochBase
		if err := rows.Scan(&e.Epoch, &e.Seq, &e.Hash); err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	return es, rows.Err()
}

// events goes through the archive page by page.
func (v *runVerification) events(ctx context.Context) error {
	for after := uint64(0); ; {
		page, err := v.eventPage(ctx, after)
		if err != nil {
			return err
		}
		var out ledger.Rows
		var tokens []begun
		for _, a := range page {
			v.report.Events++
			e, ok, err := v.check.Event(a)
			if err != nil {
				return err
			}
			if d, destructive := e.Data.(events.ToolExecutionStarted); ok && destructive && d.Ref != nil {
				tokens = append(tokens, begun{a.Columns.Seq, d.Ref.Token, d.Ref.OpKey})
			}
			if v.folding && e.Seq <= v.folded {
				if v.folding = ok && v.fold.Apply(e, &out) == nil; !v.folding {
					// What comes after cannot be compared; the finding above says why.
					continue
				}
			}
		}
		v.done(v.report.Events)
		if err := v.rows(ctx, after+1, out); err != nil {
			return err
		}
		if err := v.begun(ctx, tokens); err != nil {
			return err
		}
		if len(page) < verifyPage {
			return nil
		}
		after = page[len(page)-1].Columns.Seq
	}
}

func (v *runVerification) eventPage(ctx context.Context, after uint64) (page []ledger.Archived, err error) {
	rows, err := v.tx.Query(ctx, `
		SELECT run_id, seq, epoch, event_id, type, version, time, tenant, session_id, trace, prev, hash, bytes
		FROM events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, v.run, after, verifyPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a ledger.Archived
		c := &a.Columns
		if err := rows.Scan(&c.RunID, &c.Seq, &c.Epoch, &c.ID, &c.Type, &c.Version, &c.Time, &c.Tenant, &c.SessionID, &c.Trace, &c.Prev, &a.Hash, &a.Bytes); err != nil {
			return nil, err
		}
		page = append(page, a)
	}
	return page, rows.Err()
}

func (v *runVerification) setAside(ctx context.Context) error {
	rows, err := v.tx.Query(ctx, `SELECT run_id, seq, epoch, event_id, hash, bytes FROM set_aside WHERE run_id = $1 ORDER BY seq, hash`, v.run)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var a ledger.Archived
		c := &a.Columns
		if err := rows.Scan(&c.RunID, &c.Seq, &c.Epoch, &c.ID, &a.Hash, &a.Bytes); err != nil {
			return err
		}
		v.report.SetAside++
		if err := v.check.SetAside(a); err != nil {
			return err
		}
	}
	return rows.Err()
}
