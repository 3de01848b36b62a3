package ledgertest

import (
	"context"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// check compares the rows with the model.
func (m *model) check(t *rapid.T) {
	for _, r := range m.runs {
		run := m.h.state(t, r.id)
		if run.State != r.state || run.Epoch != r.epoch || run.LeaseUntil.IsZero() != (r.until < 0) {
			t.Fatalf("run %s is %s, epoch %d, lease until %v; want %s, %d, until %v", r.id, run.State, run.Epoch, run.LeaseUntil, r.state, r.epoch, r.until)
		}
		var facts []events.ID
		for _, f := range pendingOf(t, m.h, r.id) {
			facts = append(facts, f.ID)
		}
		if !slices.Equal(facts, r.facts) {
			t.Fatalf("run %s has facts %v, want %v", r.id, facts, r.facts)
		}
		got, want := map[uint64]events.Hash{}, map[uint64]events.Hash{}
		for seq, e := range r.archive {
			want[seq] = e.Hash()
		}
		err := m.h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			rows, err := tx.Query(ctx, `SELECT seq, hash FROM events WHERE run_id = $1`, r.id)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var seq uint64
				var h events.Hash
				if err := rows.Scan(&seq, &h); err != nil {
					return err
				}
				got[seq] = h
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatalf("read archive: %v", err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("archive of run %s: %s", r.id, d)
		}
		m.checkChain(t, r)
	}
}

// checkChain proves what all of this is for: the events up to the top are one
// history, whoever wrote them.
func (m *model) checkChain(t *rapid.T, r *modelRun) {
	prev, epoch := events.Genesis(r.id), uint64(0)
	for seq := uint64(1); seq <= r.top(); seq++ {
		v := r.archive[seq].Envelope()
		if v.Prev != prev || v.Epoch < epoch {
			t.Fatalf("run %s: event %d of epoch %d does not follow the one before it", r.id, seq, v.Epoch)
		}
		prev, epoch = r.archive[seq].Hash(), v.Epoch
	}
}
