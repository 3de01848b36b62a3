package runtime

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/tools"
)

// recaller reads the original of a run's transcript out of the archive.
type recaller struct{ s *session }

// Recall implements [tools.Recaller].
func (r recaller) Recall(ctx context.Context, ids []string) ([]tools.Recalled, error) {
	s := r.s
	if err := s.flush(ctx); err != nil { // what is recorded is in the archive then
		return nil, fmt.Errorf("recall turns of run %s: %w", s.run.ID, err)
	}
	h, err := Original(ctx, s.w.cfg.Ledger, s.run.ID)
	if err != nil {
		return nil, fmt.Errorf("recall turns of run %s: %w", s.run.ID, err)
	}
	out := make([]tools.Recalled, len(ids))
	for i, id := range ids {
		out[i].ID = id
		if n, err := strconv.Atoi(strings.TrimPrefix(id, "t")); err == nil {
			out[i].Text = h.TurnText(n)
		}
	}
	return out, nil
}

// Original reads the whole transcript of a run, with what it begins with: nothing in
// it is compacted. It costs as much as all of these events.
func Original(ctx context.Context, src HistorySource, id events.RunID) (*loops.History, error) {
	run, err := src.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	h := loops.NewOriginal(id)
	if err := Inherit(ctx, src, run, h); err != nil {
		return nil, err
	}
	err = src.Events(ctx, id, 1, func(e events.Sealed) error {
		d, err := e.Decode()
		if err == nil {
			err = h.Apply(d)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", id, err)
	}
	return h, nil
}
