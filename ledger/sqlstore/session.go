package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// The row of a session is locked by whoever gives out a place, ends a run that has
// one, or puts one back: after the row of that run, before those of other runs of the
// session. A claim only reads it: a run that waits behind no other is the only one
// whose turn it is, and until it has ended the head stays.

// undoneRow is a run r of a session that those after it wait for. One that failed and
// is tried again is done: the run that tries it again has its place.
const undoneRow = `r.session_place > 0 AND (r.ended_at IS NULL)`

// place is a place in a session, given out under the lock of its row.
type place struct {
	number uint64
	behind time.Time // zero = no run before it is undone
}

// nextPlace locks the session of a submission, makes it if there is none, and returns
// the place behind all others.
func nextPlace(ctx context.Context, tx Tx, in ledger.Submission, now time.Time) (at place, err error) {
	err = tx.Later(ctx, "make the session", `
		INSERT INTO sessions (tenant, session_id, owner, created_at, last_at) VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (tenant, session_id) DO NOTHING`, in.Tenant, in.SessionID, in.Owner, now)
	if err != nil {
		return at, err
	}
	s, err := lockSession(ctx, tx, in.Tenant, in.SessionID)
	switch {
	case err != nil:
		return at, err
	case !s.ErasedAt.IsZero():
		return at, fmt.Errorf("session %q: %w", in.SessionID, ledger.ErrSessionErased)
	case s.Owner != in.Owner:
		return at, fmt.Errorf("session %q: %w", in.SessionID, ledger.ErrSessionOwner)
	}
	// Whatever went wrong before, a run is behind another only if there is one.
	if err := advance(ctx, tx, in.Tenant, in.SessionID); err != nil {
		return at, err
	}
	undone, err := firstUndone(ctx, tx, in.Tenant, in.SessionID)
	if err != nil {
		return at, err
	}
	at.number = s.Places + 1
	if undone > 0 {
		at.behind = now
	}
	return at, nil
}

// take counts the place as given out.
func (at place) take(ctx context.Context, tx Tx, in ledger.Submission, now time.Time) error {
	return one(tx.Exec(ctx, `UPDATE sessions SET places = $3, last_at = $4 WHERE tenant = $1 AND session_id = $2`, in.Tenant, in.SessionID, at.number, now))
}

const sessionColumns = `s.tenant, s.session_id, s.owner, s.places, s.head_run, s.created_at, s.last_at, s.erased_at`

func scanSession(row Row, extra ...any) (s ledger.Session, err error) {
	err = row.Scan(append([]any{&s.Tenant, &s.ID, &s.Owner, &s.Places, &s.Head, &s.CreatedAt, &s.LastAt, &s.ErasedAt}, extra...)...)
	return s, err
}

func lockSession(ctx context.Context, tx Tx, tenant, id string) (ledger.Session, error) {
	s, err := scanSession(tx.QueryRow(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.tenant = $1 AND s.session_id = $2 FOR UPDATE`, tenant, id))
	if err != nil {
		return s, sessionError("lock", id, err)
	}
	return s, nil
}

func sessionError(verb, id string, err error) error {
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	return fmt.Errorf("%s session %q: %w", verb, id, err)
}

// firstUndone is the place whose turn it is; 0 if all runs of the session are done.
func firstUndone(ctx context.Context, tx Tx, tenant, id string) (n uint64, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(min(r.session_place), 0) FROM runs r WHERE r.tenant = $1 AND r.session_id = $2 AND `+undoneRow, tenant, id).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for the session's next run: %w", err)
	}
	return n, nil
}

// advance lets the run go whose turn it is. The session is locked.
func advance(ctx context.Context, tx Tx, tenant, id string) error {
	// A run that was to be let go may be cancelled at this moment, and end right
	// then: its own end lets nobody go, since it was behind another.
	for last := uint64(0); ; {
		n, err := firstUndone(ctx, tx, tenant, id)
		if err != nil || n == last {
			return err
		}
		last = n
		_, err = tx.Exec(ctx, `UPDATE runs SET behind_at = NULL WHERE tenant = $1 AND session_id = $2 AND session_place = $3 AND behind_at IS NOT NULL AND ended_at IS NULL`, tenant, id, n)
		if err != nil {
			return fmt.Errorf("let the session's next run go: %w", err)
		}
	}
}

// continues is what a run of a session goes on from whose turn it is: the last event
// in the archive of the run that is its head.
func continues(ctx context.Context, tx Tx, run ledger.Run) (o ledger.Origin, err error) {
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

// leaveSession is the end of a run's turn: it becomes what the next one goes on from,
// if it had begun, and the next may go. The run is locked, and nothing tries it again.
func leaveSession(ctx context.Context, tx Tx, run ledger.Run, now time.Time) error {
	if run.SessionPlace == 0 || !run.BehindAt.IsZero() { // nobody waits for what waited itself
		return nil
	}
	if _, err := lockSession(ctx, tx, run.Tenant, run.SessionID); err != nil {
		return err
	}
	var began, end uint64
	err := tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM events WHERE run_id = $1 AND type = 'run_started'),
			(SELECT coalesce(min(seq), 0) FROM events WHERE run_id = $1 AND type IN ('run_finished', 'run_failed', 'run_cancelled'))`, run.ID).Scan(&began, &end)
	if err != nil {
		return fmt.Errorf("look for its end: %w", err)
	}
	q, args := `UPDATE sessions SET last_at = $3 WHERE tenant = $1 AND session_id = $2`, []any{run.Tenant, run.SessionID, now}
	if began > 0 {
		q, args = `UPDATE sessions SET last_at = $3, head_run = $4, head_seq = $5 WHERE tenant = $1 AND session_id = $2`, append(args, run.ID, end)
	}
	if err := one(tx.Exec(ctx, q, args...)); err != nil {
		return err
	}
	return advance(ctx, tx, run.Tenant, run.SessionID)
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
		UPDATE runs SET behind_at = $4 WHERE tenant = $1 AND session_id = $2 AND session_place > $3 AND behind_at IS NULL AND started_at IS NULL AND ended_at IS NULL`,
		dead.Tenant, dead.SessionID, dead.SessionPlace, now)
	if err != nil {
		return fmt.Errorf("hold back the session's later runs: %w", err)
	}
	var later int
	err = tx.QueryRow(ctx, `SELECT count(*) FROM runs r WHERE r.tenant = $1 AND r.session_id = $2 AND r.session_place > $3 AND r.started_at IS NOT NULL`,
		dead.Tenant, dead.SessionID, dead.SessionPlace).Scan(&later)
	if err != nil {
		return fmt.Errorf("look for the session's later runs: %w", err)
	}
	if later > 0 {
		at := place{number: s.Places + 1}
		_, err = tx.Exec(ctx, `
			UPDATE runs SET session_place = $2, behind_at = $3, continues_run = NULL, continues_seq = 0, continues_hash = NULL WHERE id = $1`, next, at.number, now)
		if err == nil {
			err = at.take(ctx, tx, ledger.Submission{Tenant: dead.Tenant, SessionID: dead.SessionID}, now)
		}
	} else if s.Head == dead.ID {
		err = one(tx.Exec(ctx, `UPDATE sessions SET head_run = $3, head_seq = $4, last_at = $5 WHERE tenant = $1 AND session_id = $2`,
			dead.Tenant, dead.SessionID, dead.Continues.Run, dead.Continues.Seq, now))
	}
	if err != nil {
		return fmt.Errorf("give it a place in session %q: %w", dead.SessionID, err)
	}
	return advance(ctx, tx, dead.Tenant, dead.SessionID)
}

// restorePlace makes the session of a run again that a database from a backup had lost.
func restorePlace(ctx context.Context, tx Tx, tenant, id, owner string, at events.SessionPlace, now time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO sessions (tenant, session_id, owner, places, head_run, head_seq, created_at, last_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
		ON CONFLICT (tenant, session_id) DO UPDATE SET
			places = CASE WHEN sessions.places < excluded.places THEN excluded.places ELSE sessions.places END`,
		tenant, id, owner, at.Place, at.Run, at.Seq, now)
	if err != nil {
		return fmt.Errorf("restore its place in session %q: %w", id, err)
	}
	return nil
}

// eraseSessions has nobody continue the sessions of an owner.
func eraseSessions(ctx context.Context, tx Tx, e *ledger.Erasure, now time.Time) (err error) {
	e.Sessions, err = tx.Exec(ctx, `UPDATE sessions SET erased_at = $3 WHERE tenant = $1 AND owner = $2 AND erased_at IS NULL`, e.Tenant, e.Owner, now)
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	return nil
}

// Session implements ledger.Sessions.
func (s *Store) Session(ctx context.Context, tenant, id string) (out ledger.Session, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		out, err = scanSession(tx.QueryRow(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.tenant = $1 AND s.session_id = $2`, tenant, id))
		if err != nil {
			return sessionError("read", id, err)
		}
		return nil
	})
	if err != nil {
		return ledger.Session{}, err
	}
	return out, nil
}

// Sessions implements ledger.Sessions.
func (s *Store) Sessions(ctx context.Context, f ledger.SessionFilter) (list []ledger.Session, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		var w where
		if f.Tenant != "" {
			w.add("s.tenant = $%d", f.Tenant)
		}
		if f.Owner != "" {
			w.add("s.owner = $%d", f.Owner)
		}
		if b := f.Before; b != nil {
			w.add("(s.last_at < $%[1]d OR s.last_at = $%[1]d AND (s.session_id > $%[2]d OR s.session_id = $%[2]d AND s.tenant > $%[3]d))", b.LastAt, b.ID, b.Tenant)
		}
		rows, err := tx.Query(ctx, `SELECT `+sessionColumns+` FROM sessions s`+w.String()+fmt.Sprintf(` ORDER BY s.last_at DESC, s.session_id, s.tenant LIMIT $%d`, w.arg(limitOf(f.Limit))), w.args...)
		return each(rows, err, func(row Row) error {
			x, err := scanSession(row)
			list = append(list, x)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
}

// SessionRuns implements ledger.Sessions.
func (s *Store) SessionRuns(ctx context.Context, tenant, id string, from uint64, limit int) (list []ledger.Summary, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT `+runColumns+`, `+optionalTotals+` FROM (SELECT * FROM runs r
			WHERE r.tenant = $1 AND r.session_id = $2 AND r.session_place > 0 AND r.session_place >= $3
			ORDER BY r.session_place, r.id LIMIT $4) r LEFT JOIN run_summaries s ON s.run_id = r.id ORDER BY r.session_place, r.id`, tenant, id, from, listed(limit))
		return each(rows, err, func(row Row) error {
			var t ledger.Totals
			run, err := scanRun(row, totalsDest(&t)...)
			if err == nil {
				list = append(list, summary(run, t))
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list runs of session %q: %w", id, err)
	}
	return list, nil
}

// LastSnapshot implements ledger.Snapshots.
func (s *Store) LastSnapshot(ctx context.Context, run events.RunID, seq uint64) (e events.Sealed, ok bool, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		ok = false
		rows, err := tx.Query(ctx, `SELECT e.bytes, e.hash FROM events e WHERE e.run_id = $1 AND e.seq <= $2 AND e.type = 'transcript_compacted' ORDER BY e.seq DESC`, run, seq)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var b []byte
			var h events.Hash
			if err := rows.Scan(&b, &h); err != nil {
				return err
			}
			if e, err = events.Parse(b, h); err != nil {
				return fmt.Errorf("run %s: %w", run, err)
			}
			d, err := e.Decode()
			if err != nil {
				return err
			}
			if p, is := d.Data.(events.TranscriptCompacted); is && !p.Snapshot.IsZero() {
				ok = true
				return nil
			}
		}
		return rows.Err()
	})
	if err != nil {
		return events.Sealed{}, false, fmt.Errorf("look for a snapshot of run %s: %w", run, err)
	}
	return e, ok, nil
}
