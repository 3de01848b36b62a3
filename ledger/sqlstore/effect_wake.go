package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
)

// wakeWaiters inserts a run_unparked fact for every run that is parked on e.
// The transaction that decides e calls it after it holds e's lock: a Park that
// committed before is seen here, and one that comes later sees the decision,
// so no wake-up is lost. No other run's row is locked. told is the run that
// gets the outcome as a fact of its own.
func (s *Store) wakeWaiters(ctx context.Context, tx Tx, e effectRow, attempt int, told events.RunID) error {
	waiters, err := waitingRuns(ctx, tx, e.OpKey)
	if err != nil {
		return err
	}
	for _, w := range waiters {
		if w.run == told || bug.On(bug.WaitersNotWoken) {
			continue
		}
		p := events.RunUnparked{Reason: w.reason, Detail: "effect of " + e.Tool + " is decided: " + string(e.State), OpKey: e.OpKey}
		id := wakeID(e.CreatedAt, e.OpKey, e.Generation, attempt, w.run)
		if _, _, err := s.addFact(ctx, tx, w.run, id, p, w.trace); err != nil {
			return fmt.Errorf("wake run %s: %w", w.run, err)
		}
	}
	return nil
}

type waiter struct {
	run    events.RunID
	reason events.ParkReason
	trace  string
}

func waitingRuns(ctx context.Context, tx Tx, key events.Hash) ([]waiter, error) {
	rows, err := tx.Query(ctx, `SELECT id, park_reason, trace FROM runs WHERE state = 'parked' AND park_key = $1 ORDER BY id`, key)
	if err != nil {
		return nil, fmt.Errorf("read waiters of effect %s: %w", key, err)
	}
	defer rows.Close()
	var ws []waiter
	for rows.Next() {
		var w waiter
		if err := rows.Scan(&w.run, &w.reason, &w.trace); err != nil {
			return nil, fmt.Errorf("read waiters of effect %s: %w", key, err)
		}
		ws = append(ws, w)
	}
	return ws, rows.Err()
}

// wakeID is fixed by the settlement and the waiter, so a run is woken once by
// each. Its time part is when the effect was made.
func wakeID(made time.Time, key events.Hash, generation, attempt int, run events.RunID) events.ID {
	b := append([]byte("daybook/wake/1\x00"), key[:]...)
	b = binary.AppendUvarint(b, uint64(generation))
	b = binary.AppendUvarint(b, uint64(attempt))
	sum := sha256.Sum256(append(b, run[:]...))
	var id events.ID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(made.UnixMilli()))
	copy(id[:6], ms[2:])
	copy(id[6:], sum[:10])
	return id
}
