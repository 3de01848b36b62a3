package sqlstore

import (
	"context"
	"errors"

	"github.com/daybookhq/daybook/events"
)

// What seeded bugs need that nothing else does; see internal/bug.

// errLost rolls a Begin back that has been answered.
var errLost = errors.New("begin rolled back: DAYBOOK_BUG")

// startedNow is the second look at an effect that no decision may need.
func (s *Store) startedNow(ctx context.Context, key events.Hash) bool {
	var state events.EffectState
	err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		return tx.QueryRow(ctx, `SELECT state FROM effects WHERE op_key = $1`, key).Scan(&state)
	})
	return err == nil && state == events.EffectStarted
}
