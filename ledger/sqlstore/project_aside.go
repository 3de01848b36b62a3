package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
)

// setAside keeps an event that a later epoch made invalid; a cost or an outcome
// in it becomes a fact under the event's own id.
func (b *batchTx) setAside(ctx context.Context, e events.Sealed) error {
	env := e.Envelope()
	n, err := b.tx.Exec(ctx, `
		INSERT INTO set_aside (run_id, seq, epoch, event_id, hash, bytes, reason, set_aside_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (run_id, seq, hash) DO NOTHING`,
		env.RunID, env.Seq, env.Epoch, env.ID, e.Hash(), e.Bytes(), "projected after a later epoch had begun before it", b.now)
	if err != nil {
		return fmt.Errorf("set aside run %s seq %d: %w", env.RunID, env.Seq, err)
	}
	if n == 0 {
		b.out.Duplicates++
		return nil
	}
	b.out.SetAside++
	return b.s.rescue(ctx, b.tx, e)
}
