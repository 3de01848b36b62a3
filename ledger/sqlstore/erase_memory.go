package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// lastOf are the notes that are kept for an owner, $2, and nobody else.
const lastOf = `SELECT h.note_id FROM memory_holders h WHERE h.tenant = $1 AND h.owner = $2
	AND NOT EXISTS (SELECT 1 FROM memory_holders o WHERE o.tenant = $1 AND o.note_id = h.note_id AND o.owner <> $2)`

// eraseMemory deletes what was remembered in the runs of an owner. The tables are
// those of runtime/memorydb, whose writers lock the owner's row first: what they
// had not committed is waited for, and what comes later is refused.
func eraseMemory(ctx context.Context, tx Tx, e *ledger.Erasure, now time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO memory_owners (tenant, owner, erased_at) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, owner) DO UPDATE SET erased_at = excluded.erased_at WHERE memory_owners.erased_at IS NULL`, e.Tenant, e.Owner, now)
	if err != nil {
		return fmt.Errorf("refuse what is to be remembered: %w", err)
	}
	// Who remembers the same for another owner holds the note until that is
	// committed, and shows in the statements below.
	rows, err := tx.Query(ctx, `SELECT id FROM memory_notes WHERE tenant = $1 AND id IN (
		SELECT note_id FROM memory_holders WHERE tenant = $1 AND owner = $2) ORDER BY id FOR UPDATE`, e.Tenant, e.Owner)
	if err != nil {
		return fmt.Errorf("lock notes: %w", err)
	}
	for rows.Next() {
		continue
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("lock notes: %w", err)
	}
	for _, d := range []struct {
		what, sql string
		n         *int64
	}{
		{"words", `DELETE FROM memory_words WHERE tenant = $1 AND note_id IN (` + lastOf + `)`, nil},
		{"links", `DELETE FROM memory_links WHERE tenant = $1 AND note_id IN (` + lastOf + `)`, nil},
		{"gates", `DELETE FROM memory_gates WHERE tenant = $1 AND note_id IN (` + lastOf + `)`, nil},
		{"notes", `DELETE FROM memory_notes WHERE tenant = $1 AND id IN (` + lastOf + `)`, &e.Notes},
		{"holders", `DELETE FROM memory_holders WHERE tenant = $1 AND owner = $2`, nil},
		{"moments", `DELETE FROM memory_moments WHERE tenant = $1 AND owner = $2`, &e.Moments},
	} {
		n, err := tx.Exec(ctx, d.sql, e.Tenant, e.Owner)
		if err != nil {
			return fmt.Errorf("delete %s: %w", d.what, err)
		}
		if d.n != nil {
			*d.n = n
		}
	}
	return nil
}
