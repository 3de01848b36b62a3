package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Compare refuses a database that is older than its journal, see
// [Rollbacks.CompareJournal], and looks besides at what nobody has confirmed
// yet: a message that tells of a run, an epoch or an attempt which the database
// does not have, although each is committed before anything is told of it. The
// error is a [RollbackError] then.
func Compare(ctx context.Context, st ReconcileStore, journal events.Reader) error {
	return CompareLogged(ctx, st, journal, slog.New(slog.DiscardHandler))
}

// sayEvery is how long a comparison works without a word.
const sayEvery = 5 * time.Second

// CompareLogged is [Compare] that says every 5 seconds how far it is.
func CompareLogged(ctx context.Context, st ReconcileStore, journal events.Reader, log *slog.Logger) error {
	at, err := journal.Position(ctx)
	if err != nil {
		return err
	}
	if err := st.CompareJournal(ctx, at); err != nil {
		return err
	}
	// What was reconciled is accounted for, also what could not be put back: the
	// projector sets it apart.
	accounted, err := st.Accounted(ctx, at.Incarnation)
	if err != nil {
		return err
	}
	c := &reconciling{journal: journal}
	at.First = max(at.First, at.Confirmed+1, accounted+1)
	if at.First > at.Last {
		return nil
	}
	reason, said := "", time.Now()
	err = c.batches(ctx, at, func(batch []Incoming) error {
		k, err := st.Known(ctx, batch)
		if err != nil {
			return err
		}
		if now := time.Now(); now.Sub(said) >= sayEvery {
			said = now
			seq := batch[len(batch)-1].Message.Sequence
			log.InfoContext(ctx, "comparing the database with the journal before any work: nothing is claimed until it is done",
				"message", seq, "last", at.Last, "of", at.Last-at.First+1, "left", at.Last-min(seq, at.Last))
		}
		for _, in := range batch {
			for _, e := range in.Events {
				if lacks := k.lacks(e); lacks != "" {
					reason = fmt.Sprintf("message %d of the journal tells of %s, which the database does not have", in.Message.Sequence, lacks)
					return errEnough
				}
			}
		}
		return nil
	})
	if reason == "" {
		return err
	}
	if err := st.HoldBack(ctx, reason); err != nil {
		return err
	}
	return &RollbackError{Reason: reason}
}

// errEnough ends the reading of a journal: one thing that is lacking is enough.
var errEnough = errors.New("the database is behind its journal")

// lacks names what a database must have that an event was recorded on, and does
// not have.
func (k Known) lacks(e events.Sealed) string {
	v := e.Envelope()
	switch {
	case !k.Runs[v.RunID]:
		return fmt.Sprintf("run %s", v.RunID)
	case !hasEpoch(k, v):
		return fmt.Sprintf("epoch %d of run %s", v.Epoch, v.RunID)
	}
	d, err := e.Decode()
	if err != nil {
		return "" // of a later build, or poison
	}
	if p, ok := d.Data.(events.ToolExecutionStarted); ok && p.Ref != nil {
		if _, there := k.Attempts[p.Ref.Token]; !there {
			return fmt.Sprintf("an attempt of %s %s of run %s", p.Tool, p.Call, v.RunID)
		}
	}
	return ""
}

func hasEpoch(k Known, v events.Envelope) bool {
	_, there := k.Epochs[v.RunID][v.Epoch]
	return there
}
