package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
)

// rescue keeps what an event that became invalid says about money or an
// outcome, as a fact under the event's own id: it counts and never enters the
// transcript. Nothing is inserted for an id that is in the archive or pending.
func (s *Store) rescue(ctx context.Context, tx Tx, e events.Sealed) error {
	env := e.Envelope()
	ev, err := e.Decode()
	if err != nil {
		return nil //nolint:nilerr // set aside as it is: a build that can read it finds it there
	}
	switch d := ev.Data.(type) {
	case events.ModelCallFinished, events.ToolExecutionError, events.ToolExecutionInDoubt, events.EffectResolved:
	case events.ToolExecutionFinished:
		if d.Repeated {
			return nil // an outcome that stands elsewhere
		}
	case events.ModelCallError:
		if d.Usage == nil && d.Cost == nil {
			return nil
		}
	default:
		return nil
	}
	raw, err := e.Data()
	if err != nil {
		return err
	}
	f := events.Fact{ID: env.ID, RunID: env.RunID, Type: env.Type, Version: env.Version, Trace: env.Trace, Data: raw}
	if _, _, err := s.putFact(ctx, tx, f); err != nil {
		return fmt.Errorf("keep what was set aside: run %s seq %d: %w", env.RunID, env.Seq, err)
	}
	return nil
}
