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
		_, err = tx.Exec(ctx, `UPDATE runs SET behind_at = NULL WHERE tenant = $1 AND session_id = $2 AND session_place = $3 AND session_place > 0 AND behind_at IS NOT NULL AND ended_at IS NULL`, tenant, id, n)
		if err != nil {
			return fmt.Errorf("let the session's next run go: %w", err)
		}
	}
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
