package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
)

// HistorySource is where the events are read that a run begins with.
type HistorySource interface {
	Run(ctx context.Context, id events.RunID) (ledger.Run, error)
	Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error
	// LastSnapshot is that of [ledger.Snapshots], Blob that of [ledger.Archive].
	LastSnapshot(ctx context.Context, run events.RunID, seq uint64) (events.Sealed, bool, error)
	Blob(ctx context.Context, tenant string, h events.Hash) ([]byte, string, error)
}

// Bounds of what a run begins with. A model takes far less: whoever meets one has a
// session without compaction, or one that nothing was ever said in.
const (
	maxOrigins        = 10_000    // runs that are read for one
	maxInheritedBytes = 256 << 20 // of their events
)

// errTooMuch is a history that no run can begin with, now or later.
var errTooMuch = fmt.Errorf("give the agent a compaction and begin another session: %w", errUnworkable)

// errEnough ends a reading early.
var errEnough = errors.New("enough")

// inherited is a part of the history that a run begins with: the events of a run up to
// seq, from behind snap if there is one.
type inherited struct {
	run  events.RunID
	seq  uint64
	snap *events.Event
	text []byte // the snapshot
}

// Inherit folds into h what a fork or a run of a session begins with: the events of
// the run it comes from, and of the one that comes from, oldest first. Where a session's
// transcript was compacted, it begins there, unless h leaves compactions out. For any
// other run it does nothing; called again it goes on where it stopped.
func Inherit(ctx context.Context, src HistorySource, run ledger.Run, h *loops.History) error {
	parts, err := lineage(ctx, src, run, h.Whole())
	if err != nil {
		return err
	}
	at, seq, _ := h.Inherited()
	skip, size := !at.IsZero(), 0
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		from := uint64(1)
		switch {
		case skip && p.run != at:
			continue
		case skip:
			skip, from = false, seq+1
		case p.snap != nil:
			if err := h.Restore(*p.snap, p.text); err != nil {
				return fmt.Errorf("%w: %w", errUnworkable, err)
			}
			from = p.snap.Seq + 1
		}
		if from > p.seq {
			continue
		}
		if err := inheritPart(ctx, src, p, from, h, &size); err != nil {
			return err
		}
	}
	return nil
}

func inheritPart(ctx context.Context, src HistorySource, p inherited, from uint64, h *loops.History, size *int) error {
	err := src.Events(ctx, p.run, from, func(s events.Sealed) error {
		e, err := s.Decode()
		if err == nil {
			err = h.Inherit(e)
		}
		if *size += len(s.Bytes()); err == nil && *size > maxInheritedBytes {
			err = fmt.Errorf("what it begins with has over %d MiB of events: %w", maxInheritedBytes>>20, errTooMuch)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errUnworkable, err)
		}
		if e.Seq == p.seq {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return fmt.Errorf("inherit the history of run %s: %w", p.run, err)
	}
	return fmt.Errorf("inherit the history of run %s up to event %d: the archive does not have it: %w", p.run, p.seq, errUnworkable)
}

// lineage is what a run begins with, the nearest part first.
func lineage(ctx context.Context, src HistorySource, run ledger.Run, whole bool) ([]inherited, error) {
	var parts []inherited
	for r := run; ; {
		p := inherited{run: r.ForkOf, seq: r.ForkSeq}
		if p.run.IsZero() {
			p = inherited{run: r.Continues.Run, seq: r.Continues.Seq}
		}
		if p.run.IsZero() {
			return parts, nil
		}
		if len(parts) == maxOrigins {
			return nil, fmt.Errorf("run %s begins with the history of over %d runs: %w", run.ID, maxOrigins, errTooMuch)
		}
		var err error
		if r, err = src.Run(ctx, p.run); err != nil {
			return nil, fmt.Errorf("read what run %s begins with: %w", run.ID, err)
		}
		if r.Tenant != run.Tenant {
			return nil, fmt.Errorf("run %s begins with the history of run %s, which is another tenant's: %w", run.ID, r.ID, errUnworkable)
		}
		if r.SessionPlace > 0 && !whole {
			if err := p.restorable(ctx, src, r.Tenant); err != nil {
				return nil, err
			}
		}
		if parts = append(parts, p); p.snap != nil {
			return parts, nil
		}
	}
}

// restorable looks for a snapshot in a part. One whose text is gone is none: then the
// events are read from which it was made.
func (p *inherited) restorable(ctx context.Context, src HistorySource, tenant string) error {
	s, ok, err := src.LastSnapshot(ctx, p.run, p.seq)
	if err != nil || !ok {
		return err
	}
	e, err := s.Decode()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnworkable, err)
	}
	c, ok := e.Data.(events.TranscriptCompacted)
	if !ok {
		return fmt.Errorf("event %d of run %s is %s, and no compaction: %w", e.Seq, p.run, e.Type, errUnworkable)
	}
	switch p.text, _, err = src.Blob(ctx, tenant, c.Snapshot); {
	case errors.Is(err, ledger.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the snapshot of run %s at event %d: %w", p.run, e.Seq, err)
	}
	p.snap = &e
	return nil
}
