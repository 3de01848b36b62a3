package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// continues is what a run of a session goes on from whose turn it is: the last event
// in the archive of the run that is its head.
func continues(ctx context.Context, tx Tx, run ledger.Run) (o ledger.Origin, err error) {
	// Its record decides, if there is one: after a restore from a backup its row knows
	// nothing of it, and the head may be another.
	if o, told, err := toldOrigin(ctx, tx, run.ID); told || err != nil {
		return o, err
	}
	if run.State != ledger.Running { // cancelled before it began
		return run.Continues, nil
	}
	if !run.Continues.IsZero() { // that of the attempt before
		return run.Continues, nil
	}
	var from uint64
	err = tx.QueryRow(ctx, `SELECT s.head_run, s.head_seq FROM sessions s WHERE s.tenant = $1 AND s.session_id = $2`, run.Tenant, run.SessionID).Scan(&o.Run, &from)
	if err != nil {
		return o, sessionError("read", run.SessionID, err)
	}
	if o.Run.IsZero() {
		return o, nil
	}
	// Facts may stand behind the end; what follows without a gap is never set aside.
	rows, err := tx.Query(ctx, `SELECT e.seq, e.hash FROM events e WHERE e.run_id = $1 AND e.seq >= $2 ORDER BY e.seq`, o.Run, from)
	if err != nil {
		return o, fmt.Errorf("read the end of run %s: %w", o.Run, err)
	}
	defer rows.Close()
	for next := from; rows.Next(); next++ {
		var seq uint64
		var h events.Hash
		if err := rows.Scan(&seq, &h); err != nil {
			return o, fmt.Errorf("read the end of run %s: %w", o.Run, err)
		}
		if seq != next {
			break
		}
		o.Seq, o.Hash = seq, h
	}
	if err := rows.Err(); err != nil {
		return o, fmt.Errorf("read the end of run %s: %w", o.Run, err)
	}
	if o.Seq == 0 {
		return o, fmt.Errorf("session %q goes on from event %d of run %s, which the archive does not have: run ledgerctl verify", run.SessionID, from, o.Run)
	}
	return o, nil
}

// toldOrigin is what the first event of a run says that it goes on from, if the
// archive has that event.
func toldOrigin(ctx context.Context, tx Tx, run events.RunID) (o ledger.Origin, told bool, err error) {
	fail := func(err error) (ledger.Origin, bool, error) {
		return ledger.Origin{}, false, fmt.Errorf("read what run %s goes on from: %w", run, err)
	}
	var b []byte
	var h events.Hash
	err = tx.QueryRow(ctx, `SELECT e.bytes, e.hash FROM events e WHERE e.run_id = $1 AND e.seq = 1`, run).Scan(&b, &h)
	if errors.Is(err, ErrNoRows) {
		return o, false, nil
	}
	if err != nil {
		return fail(err)
	}
	e, err := events.Parse(b, h)
	if err != nil {
		return fail(err)
	}
	d, err := e.Decode()
	if err != nil {
		return fail(err)
	}
	q, is := d.Data.(events.RunQueued)
	if !is || q.Session == nil {
		return o, false, nil
	}
	return ledger.Origin{Run: q.Session.Run, Seq: q.Session.Seq, Hash: q.Session.Hash}, true, nil
}

// leaveSession is the end of a run's turn: it becomes what the next one goes on from,
// and the next may go. The run is locked, and nothing tries it again.
func leaveSession(ctx context.Context, tx Tx, run ledger.Run, now time.Time) error {
	if run.SessionPlace == 0 || !run.BehindAt.IsZero() { // nobody waits for what waited itself
		return nil
	}
	s, err := lockSession(ctx, tx, run.Tenant, run.SessionID)
	if err != nil {
		return err
	}
	head, end, err := headOf(ctx, tx, run)
	if err != nil {
		return err
	}
	at, err := headPlace(ctx, tx, s)
	if err != nil {
		return err
	}
	q, args := `UPDATE sessions SET last_at = $3 WHERE tenant = $1 AND session_id = $2`, []any{run.Tenant, run.SessionID, now}
	// After a restore from a backup ends are recorded again in any order: the head
	// never goes back.
	if !head.IsZero() && at <= run.SessionPlace {
		q, args = `UPDATE sessions SET last_at = $3, head_run = $4, head_seq = $5 WHERE tenant = $1 AND session_id = $2`, append(args, head, end)
	}
	if err := one(tx.Exec(ctx, q, args...)); err != nil {
		return err
	}
	return advance(ctx, tx, run.Tenant, run.SessionID)
}

// headOf is the attempt at a run's place that counts, and its end: the newest one that
// had begun. One that never did leaves what the attempts before it had done; zero: none
// had begun.
func headOf(ctx context.Context, tx Tx, run ledger.Run) (head events.RunID, end uint64, err error) {
	err = tx.QueryRow(ctx, `
		SELECT r.id, (SELECT coalesce(min(e.seq), 0) FROM events e WHERE e.run_id = r.id AND e.type IN ('run_finished', 'run_failed', 'run_cancelled'))
		FROM runs r WHERE r.tenant = $1 AND r.session_id = $2 AND r.session_place = $3 AND r.session_place > 0
			AND EXISTS (SELECT 1 FROM events e WHERE e.run_id = r.id AND e.type = 'run_started')
		ORDER BY r.attempt DESC, r.id DESC LIMIT 1`, run.Tenant, run.SessionID, run.SessionPlace).Scan(&head, &end)
	if err != nil && !errors.Is(err, ErrNoRows) {
		return head, 0, fmt.Errorf("look for the end of place %d: %w", run.SessionPlace, err)
	}
	return head, end, nil
}

// headPlace is the place of a session's head; 0 if it has none.
func headPlace(ctx context.Context, tx Tx, s ledger.Session) (n uint64, err error) {
	if s.Head.IsZero() {
		return 0, nil
	}
	err = tx.QueryRow(ctx, `SELECT coalesce(max(r.session_place), 0) FROM runs r WHERE r.id = $1`, s.Head).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for run %s: %w", s.Head, err)
	}
	return n, nil
}

// returnToSession gives a dead run's next attempt, which was just queued, its place in
// the session. As long as no run after it has begun that is the old one, and those
// after it wait again; else it is the last.
func returnToSession(ctx context.Context, tx Tx, dead ledger.Run, next events.RunID, now time.Time) error {
	if dead.SessionPlace == 0 {
		return nil
	}
	s, err := lockSession(ctx, tx, dead.Tenant, dead.SessionID)
	if err != nil {
		return err
	}
	if !s.ErasedAt.IsZero() {
		return fmt.Errorf("session %q: %w", dead.SessionID, ledger.ErrSessionErased)
	}
	// Those that have not begun are held back first: a claim of one has its row, and
	// is waited for.
	_, err = tx.Exec(ctx, `
		UPDATE runs SET behind_at = $4 WHERE tenant = $1 AND session_id = $2 AND session_place > $3 AND session_place > 0
			AND behind_at IS NULL AND started_at IS NULL AND ended_at IS NULL`,
		dead.Tenant, dead.SessionID, dead.SessionPlace, now)
	if err != nil {
		return fmt.Errorf("hold back the session's later runs: %w", err)
	}
	// A claim is not yet a beginning: who was cancelled before it was claimed too. As
	// long as it has not ended its record may be on its way.
	var later int
	err = tx.QueryRow(ctx, `
		SELECT count(*) FROM runs r WHERE r.tenant = $1 AND r.session_id = $2 AND r.session_place > $3 AND r.session_place > 0 AND r.started_at IS NOT NULL
			AND (r.ended_at IS NULL OR EXISTS (SELECT 1 FROM events e WHERE e.run_id = r.id AND e.type = 'run_started'))`,
		dead.Tenant, dead.SessionID, dead.SessionPlace).Scan(&later)
	if err != nil {
		return fmt.Errorf("look for the session's later runs: %w", err)
	}
	head, err := headPlace(ctx, tx, s)
	if err != nil {
		return err
	}
	if later > 0 {
		at := place{number: s.Places + 1}
		_, err = tx.Exec(ctx, `
			UPDATE runs SET session_place = $2, behind_at = $3, continues_run = NULL, continues_seq = 0, continues_hash = NULL WHERE id = $1`, next, at.number, now)
		if err == nil {
			err = at.take(ctx, tx, ledger.Submission{Tenant: dead.Tenant, SessionID: dead.SessionID}, now)
		}
	} else if head == dead.SessionPlace { // it, or an attempt before it
		err = one(tx.Exec(ctx, `UPDATE sessions SET head_run = $3, head_seq = $4, last_at = $5 WHERE tenant = $1 AND session_id = $2`,
			dead.Tenant, dead.SessionID, dead.Continues.Run, dead.Continues.Seq, now))
	}
	if err != nil {
		return fmt.Errorf("give it a place in session %q: %w", dead.SessionID, err)
	}
	return advance(ctx, tx, dead.Tenant, dead.SessionID)
}
