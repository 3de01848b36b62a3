package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

const (
	// lockErasures has erasures of memory go one after the other: two owners' at
	// once would each leave a note to the other. Nobody else waits for it.
	lockErasures = `LOCK TABLE memory_holders IN SHARE UPDATE EXCLUSIVE MODE`
	// eraseAtOnce is how many notes a statement deletes. Each reads the tenant's
	// words from end to end.
	eraseAtOnce = 20_000
)

// eraseMemory deletes what was remembered in the runs of an owner. The tables are
// those of runtime/memorydb, whose writers lock the owner's row first: what they
// had not committed is waited for, and what comes later is refused. Notes that
// others remember too are not locked: their runs go on meanwhile.
func eraseMemory(ctx context.Context, tx Tx, e *ledger.Erasure, now time.Time) error {
	if _, err := tx.Exec(ctx, lockErasures); err != nil {
		return fmt.Errorf("wait for another erasure: %w", err)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO memory_owners (tenant, owner, erased_at) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, owner) DO UPDATE SET erased_at = excluded.erased_at WHERE memory_owners.erased_at IS NULL`, e.Tenant, e.Owner, now)
	if err != nil {
		return fmt.Errorf("refuse what is to be remembered: %w", err)
	}
	all, err := numbers(ctx, tx, `SELECT note_id FROM memory_holders WHERE tenant = $1 AND owner = $2 ORDER BY note_id`, e.Tenant, e.Owner)
	if err != nil {
		return fmt.Errorf("read notes: %w", err)
	}
	for ids := range slices.Chunk(all, eraseAtOnce) {
		if err := eraseNotes(ctx, tx, e, ids); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM memory_holders WHERE tenant = $1 AND owner = $2`, e.Tenant, e.Owner); err != nil {
		return fmt.Errorf("delete holders: %w", err)
	}
	e.Moments, err = tx.Exec(ctx, `DELETE FROM memory_moments WHERE tenant = $1 AND owner = $2`, e.Tenant, e.Owner)
	if err != nil {
		return fmt.Errorf("delete moments: %w", err)
	}
	return nil
}

// eraseNotes deletes those of an owner's notes that are kept for nobody else,
// and counts those that stay.
func eraseNotes(ctx context.Context, tx Tx, e *ledger.Erasure, ids []int64) error {
	others := `SELECT o.note_id FROM memory_holders o WHERE o.tenant = $1 AND o.owner <> $2 AND ` + tx.In("o.note_id", 3)
	last, err := numbers(ctx, tx, `SELECT n.id FROM memory_notes n WHERE n.tenant = $1 AND `+tx.In("n.id", 3)+` AND n.id NOT IN (`+others+`) ORDER BY n.id FOR UPDATE`, e.Tenant, e.Owner, ids)
	if err != nil {
		return fmt.Errorf("lock notes: %w", err)
	}
	// Who remembers the same for another owner held the note until that was
	// committed, and shows now.
	kept, err := numbers(ctx, tx, others+` ORDER BY o.note_id`, e.Tenant, e.Owner, last)
	if err != nil {
		return fmt.Errorf("read who else remembers: %w", err)
	}
	last = slices.DeleteFunc(last, func(id int64) bool { _, found := slices.BinarySearch(kept, id); return found })
	// Through the notes, which are found by their key, so that the lists are compared by hash.
	of := `note_id IN (SELECT n.id FROM memory_notes n WHERE n.tenant = $1 AND ` + tx.In("n.id", 2) + `)`
	for _, d := range []struct {
		what, sql string
		n         *int64
	}{
		{"words", `DELETE FROM memory_words WHERE tenant = $1 AND ` + of, nil},
		{"links", `DELETE FROM memory_links WHERE tenant = $1 AND ` + of, nil},
		{"gates", `DELETE FROM memory_gates WHERE tenant = $1 AND ` + of, nil},
		{"notes", `DELETE FROM memory_notes WHERE tenant = $1 AND ` + tx.In("id", 2), &e.Notes},
	} {
		if len(last) == 0 {
			break
		}
		n, err := tx.Exec(ctx, d.sql, e.Tenant, last)
		if err != nil {
			return fmt.Errorf("delete %s: %w", d.what, err)
		}
		if d.n != nil {
			*d.n += n
		}
	}
	var stay, nobody int64
	err = tx.QueryRow(ctx, `
		SELECT count(*), count(h.note_id) FROM memory_notes n
		LEFT JOIN memory_holders h ON h.tenant = $1 AND h.owner = '' AND h.note_id = n.id
		WHERE n.tenant = $1 AND `+tx.In("n.id", 2), e.Tenant, ids).Scan(&stay, &nobody)
	if err != nil {
		return fmt.Errorf("count the notes that stay: %w", err)
	}
	e.StayNobody += nobody
	e.StayOthers += stay - nobody
	return nil
}

// numbers runs a query for one column of numbers.
func numbers(ctx context.Context, tx Tx, q string, args ...any) (all []int64, err error) {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}
