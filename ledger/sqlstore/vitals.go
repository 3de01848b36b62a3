package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/ledger"
)

// vitalQueries answer with a count and the oldest moment. Approvals are those that the
// inbox lists.
var vitalQueries = []struct {
	what, q string
	now     bool // $1
	to      func(*ledger.Vitals) *ledger.Backlog
}{
	{"effects in doubt", `SELECT count(*), min(created_at) FROM effects WHERE state = 'in_doubt'`, false, func(v *ledger.Vitals) *ledger.Backlog { return &v.InDoubt }},
	{"open approvals", `SELECT count(*), min(a.created_at) FROM approvals a JOIN runs r ON r.id = a.run_id WHERE ` + fmt.Sprintf(openApproval, 1), true, func(v *ledger.Vitals) *ledger.Backlog { return &v.Approvals }},
	{"pending facts", `SELECT count(*), min(created_at) FROM facts`, false, func(v *ledger.Vitals) *ledger.Backlog { return &v.Facts }},
	{"unfolded events", `SELECT coalesce(CAST(sum(top_seq - folded_seq) AS bigint), 0), min(top_at) FROM run_folds WHERE folded_seq < top_seq`, false, func(v *ledger.Vitals) *ledger.Backlog { return &v.Unfolded }},
}

// Vitals implements ledger.Vital.
func (s *Store) Vitals(ctx context.Context) (v ledger.Vitals, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) (err error) {
		v = ledger.Vitals{}
		if v.Now, err = tx.Now(ctx); err != nil {
			return err
		}
		for _, q := range vitalQueries {
			b := q.to(&v)
			var args []any
			if q.now {
				args = append(args, v.Now)
			}
			if err := tx.QueryRow(ctx, q.q, args...).Scan(&b.Count, &b.Since); err != nil {
				return fmt.Errorf("%s: %w", q.what, err)
			}
		}
		if err := tx.QueryRow(ctx, `SELECT coalesce(CAST(sum(folded_seq - fed_seq) AS bigint), 0) FROM run_folds WHERE fed_seq < folded_seq`).Scan(&v.Unfed); err != nil {
			return fmt.Errorf("unfed events: %w", err)
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM quarantine`).Scan(&v.Quarantined)
	})
	if err != nil {
		return ledger.Vitals{}, fmt.Errorf("read how the ledger stands: %w", err)
	}
	return v, nil
}
