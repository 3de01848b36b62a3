package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// witness is what a Store remembers about the journal's position between
// calls. That memory is a witness: a database that was restored under a running
// process does not have what the process committed.
type witness struct {
	mu     sync.Mutex
	reader string // in journal_positions
	kept   map[string]kept
	// asked is when rollbacks was last read, reason what it said.
	asked  time.Time
	reason string
}

// kept is the highest sequence that this store committed, and when.
type kept struct {
	sequence uint64
	at       time.Time
}

const (
	// positionAge is how long a row of journal_positions stays without news.
	positionAge = 30 * 24 * time.Hour
	// witnessAge is how long a process trusts its own memory of it.
	witnessAge = 24 * time.Hour
	// rollbackCache is how old an answer may be that nothing is wrong.
	rollbackCache = time.Second
)

// baseline is the reader of the row that everybody counts as their own.
const baseline = ""

func (p *witness) name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reader == "" {
		p.reader = events.NewIDs(nil, nil).Event().String() // of no ledger: the ids in it stay as they are
	}
	return p.reader
}

func (p *witness) remembered(incarnation string, now time.Time) uint64 {
	return p.last(incarnation).trusted(now)
}

func (p *witness) last(incarnation string) kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[incarnation]
}

// trusted is the sequence, or 0 if the memory of it is too old.
func (k kept) trusted(now time.Time) uint64 {
	if now.Sub(k.at) > witnessAge {
		return 0
	}
	return k.sequence
}

func (p *witness) remember(incarnation string, sequence uint64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]kept{}
	}
	p.kept[incarnation] = kept{max(sequence, p.kept[incarnation].sequence), now}
}

// reach is up to where a batch goes, by incarnation of the consumer; there is
// hardly ever more than one.
type reach map[string]uint64

func (r reach) add(m events.Message) {
	if m.Incarnation != "" {
		r[m.Incarnation] = max(r[m.Incarnation], m.Sequence)
	}
}

// advance moves this store's position on in the transaction that commits the
// batch. A database that does not have what was committed before is refused,
// and so is one that is known to have gone back.
func (s *Store) advance(ctx context.Context, tx Tx, to reach, now time.Time) error {
	if err := rollback(ctx, tx); err != nil {
		return err
	}
	if len(to) == 0 {
		return nil // nothing of the journal's
	}
	if err := s.refuseUncompared(ctx, tx); err != nil {
		return err
	}
	me := s.witness.name()
	for incarnation, sequence := range to {
		if was := s.witness.remembered(incarnation, now); was > 0 {
			stands, err := stored(ctx, tx, incarnation, me, baseline)
			if err != nil {
				return err
			}
			if stands < was {
				return &ledger.RollbackError{Reason: fmt.Sprintf("this process committed the journal up to message %d, the database knows it up to %d", was, stands)}
			}
		}
		if err := putPosition(ctx, tx, me, incarnation, sequence, now); err != nil {
			return err
		}
	}
	return nil
}

// pass moves the position on over messages that hold nothing.
func (s *Store) pass(ctx context.Context, batch []ledger.Incoming) error {
	to := reach{}
	for _, in := range batch {
		to.add(in.Message)
	}
	if len(to) == 0 {
		return nil
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return s.advance(ctx, tx, to, now)
	})
	if back := new(ledger.RollbackError); errors.As(err, &back) {
		return s.raise(ctx, back)
	}
	return err
}

// rollback returns what the database says of itself.
func rollback(ctx context.Context, tx Tx) error {
	var reason string
	err := tx.QueryRow(ctx, `SELECT reason FROM rollbacks`).Scan(&reason)
	switch {
	case errors.Is(err, ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read rollback: %w", err)
	}
	return &ledger.RollbackError{Reason: reason}
}

// refuseRolledBack is rollback for who asks often: that all is well is known for a second.
func (s *Store) refuseRolledBack(ctx context.Context, tx Tx, now time.Time) error {
	if err := s.refuseUncompared(ctx, tx); err != nil {
		return err
	}
	p := &s.witness
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := now.Sub(p.asked); age >= 0 && age < rollbackCache && p.reason == "" {
		return nil
	}
	err := rollback(ctx, tx)
	var back *ledger.RollbackError
	if err != nil && !errors.As(err, &back) {
		return err
	}
	p.asked, p.reason = now, ""
	if back != nil {
		p.reason = back.Reason
	}
	return err
}

// stored is the highest sequence of an incarnation that readers have written.
func stored(ctx context.Context, tx Tx, incarnation string, readers ...string) (n uint64, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(max(sequence), 0) FROM journal_positions WHERE incarnation = $1 AND `+tx.In("reader", 2), incarnation, readers).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read journal position: %w", err)
	}
	return n, nil
}

func putPosition(ctx context.Context, tx Tx, reader, incarnation string, sequence uint64, now time.Time) error {
	return tx.Later(ctx, "move the journal position on", `
		INSERT INTO journal_positions (reader, incarnation, sequence, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (reader, incarnation) DO UPDATE SET at = excluded.at,
			sequence = CASE WHEN excluded.sequence > journal_positions.sequence THEN excluded.sequence ELSE journal_positions.sequence END`,
		reader, incarnation, sequence, now)
}

// raise notes that the database went back, loudly and once.
func (s *Store) raise(ctx context.Context, back *ledger.RollbackError) error {
	var n int64
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err = tx.Exec(ctx, `INSERT INTO rollbacks (one, reason, found_at) VALUES (1, $1, $2) ON CONFLICT DO NOTHING`, back.Reason, now)
		return err
	})
	if err != nil {
		return errors.Join(back, fmt.Errorf("note it: %w", err))
	}
	if n > 0 {
		s.cfg.Logger.ErrorContext(ctx, "the database went back in time: no run is claimed and no effect begun until ledgerctl reconcile has run", "reason", back.Reason)
	}
	return back
}

// CompareJournal implements ledger.Rollbacks.
func (s *Store) CompareJournal(ctx context.Context, p events.Position) error {
	me := s.witness.name()
	// Remembered before the snapshot is taken: what a projector of this process
	// commits meanwhile is in the memory, and not in the snapshot.
	memory := s.witness.last(p.Incarnation)
	var back *ledger.RollbackError
	var fresh bool
	err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		back, fresh = nil, false
		if err := sameServer(ctx, tx); err != nil {
			return err
		}
		if err := rollback(ctx, tx); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var rows, runs int
		var top uint64
		err = tx.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM journal_positions), (SELECT count(*) FROM (SELECT 1 FROM runs LIMIT 1) r),
				(SELECT coalesce(max(sequence), 0) FROM journal_positions WHERE incarnation = $1)`, p.Incarnation).Scan(&rows, &runs, &top)
		if err != nil {
			return err
		}
		// Only messages that are still there prove anything: an operator may purge a stream.
		ahead := max(top+1, p.First) <= min(p.Confirmed, p.Last)
		switch fresh = rows == 0; {
		case fresh && runs > 0, !fresh && !ahead:
		case fresh && ahead:
			back = &ledger.RollbackError{Reason: fmt.Sprintf("it holds no run, and the journal is confirmed up to message %d", p.Confirmed)}
		case ahead:
			back = &ledger.RollbackError{Reason: fmt.Sprintf("the journal is confirmed up to message %d, the database knows it up to %d", p.Confirmed, top)}
		}
		if was := memory.trusted(now); back == nil && was > 0 {
			stands, err := stored(ctx, tx, p.Incarnation, me, baseline)
			if err == nil && stands < was {
				back = &ledger.RollbackError{Reason: fmt.Sprintf("this process committed the journal up to message %d, the database knows it up to %d", was, stands)}
			}
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("compare with the journal: %w", err)
	case back != nil:
		return s.raise(ctx, back)
	case fresh:
		return s.setBaseline(ctx, p.Incarnation, p.Confirmed)
	}
	return nil
}

// setBaseline says that everything up to sequence is accounted for.
func (s *Store) setBaseline(ctx context.Context, incarnation string, sequence uint64) error {
	return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return putPosition(ctx, tx, baseline, incarnation, sequence, now)
	})
}

// Accounted implements ledger.Rollbacks.
func (s *Store) Accounted(ctx context.Context, incarnation string) (n uint64, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		if err := sameServer(ctx, tx); err != nil {
			return err
		}
		n, err = stored(ctx, tx, incarnation, baseline)
		return err
	})
	return n, err
}

// RolledBack implements ledger.Rollbacks.
func (s *Store) RolledBack(ctx context.Context) error {
	return s.db.Read(ctx, rollback)
}

// HoldBack implements ledger.Rollbacks.
func (s *Store) HoldBack(ctx context.Context, reason string) error {
	err := s.raise(ctx, &ledger.RollbackError{Reason: s.cfg.Redactor.String(reason)})
	if err != nil && !errors.Is(err, ledger.ErrRolledBack) || err != nil && s.RolledBack(ctx) == nil {
		return fmt.Errorf("hold back: %w", err)
	}
	return nil
}

// Reconciled implements ledger.Rollbacks.
func (s *Store) Reconciled(ctx context.Context, p events.Position) error {
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if err := putPosition(ctx, tx, baseline, p.Incarnation, max(p.Last, p.Confirmed), now); err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `DELETE FROM rollbacks`); err != nil {
			return err
		}
		return away(fault.Err("reconcile.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("reconcile.after_commit"))
	}
	if err != nil {
		return fmt.Errorf("end reconciling: %w", err)
	}
	return nil
}
