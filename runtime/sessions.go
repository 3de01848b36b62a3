package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
)

// place is what the run's first event says of its place in a session whose transcript
// it shares; nil if it shares none.
func (s *session) place() *events.SessionPlace {
	if s.run.SessionPlace == 0 {
		return nil
	}
	o := s.run.Continues
	return &events.SessionPlace{Place: s.run.SessionPlace, Run: o.Run, Seq: o.Seq, Hash: o.Hash}
}

// tellSettled tells the run what has become of calls that a run before it in its
// session left unknown. Facts about them come to that run alone. done is false if the
// history has changed by it.
func (s *session) tellSettled(ctx context.Context) (done bool, err error) {
	s.mu.Lock()
	ds := s.hist.InheritedUnknown()
	s.mu.Unlock()
	done = true
	for _, d := range ds {
		eff, err := s.effect(ctx, d.Ref.OpKey)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			continue
		case err != nil:
			return false, err
		}
		p := settledElsewhere(d, eff)
		if p == nil {
			continue
		}
		if err := s.Record(ctx, p); err != nil {
			return false, err
		}
		done = false
	}
	return done, nil
}

// settledElsewhere is a call's outcome, made by another run; nil while nobody knows it.
// What it cost was paid there.
func settledElsewhere(d events.ToolExecutionInDoubt, eff ledger.Effect) events.Payload {
	of := events.CallRef{Run: eff.Run, Call: eff.Call}
	switch {
	case eff.State == events.EffectApplied && eff.Outcome != nil:
		return events.ToolExecutionFinished{Call: d.Call, Attempt: d.Attempt, Tool: d.Tool, Result: *eff.Outcome, Ref: &d.Ref, Repeated: true, Of: &of, Redacted: true, At: eff.SettledAt}
	case eff.State == events.EffectNotApplied:
		return events.ToolExecutionError{
			Call: d.Call, Attempt: d.Attempt, Tool: d.Tool, Ref: &d.Ref, Repeated: true, Of: &of, Error: events.ErrorInfo{Kind: "not_applied", Message: "found out after the run that made it had ended"},
			Result: events.ToolResult{Status: "failed", Trust: "own"}, At: eff.SettledAt,
		}
	case eff.State == events.EffectAbandoned:
		return events.ToolExecutionBlocked{
			Call: d.Call, Tool: d.Tool, Reason: events.BlockedPermissionDenied, Detail: "abandoned", OpKey: d.Ref.OpKey, Of: &of,
			Result: events.ToolResult{Status: "failed", Error: "unknown whether this took effect, given up by a person; do not retry", Trust: "own"}, At: eff.SettledAt,
		}
	}
	return nil
}

// recordCompacted records a compaction. In a session the transcript that it leaves is
// stored first, so that the runs behind this one need not read what came before.
func (s *session) recordCompacted(ctx context.Context, e events.TranscriptCompacted) error {
	for {
		s.mu.Lock()
		seq, snap, err := s.hist.Seq(), []byte(nil), error(nil)
		if e, snap, err = s.withSnapshotLocked(e); err != nil {
			s.mu.Unlock()
			return err
		}
		s.mu.Unlock()
		if snap != nil {
			if e.Snapshot, err = s.storeBlob(ctx, "application/json", snap); err != nil {
				return err
			}
		}
		s.mu.Lock()
		if s.hist.Seq() == seq || snap == nil {
			_, err = s.recordLocked(ctx, e)
			s.mu.Unlock()
			return err
		}
		s.mu.Unlock() // something came in meanwhile: it belongs into the snapshot
	}
}

// withSnapshotLocked returns the compaction as it will be recorded, redacted, and the
// transcript behind it; nil = nobody is to begin there. Nothing is stored that the
// redactor would change.
func (s *session) withSnapshotLocked(e events.TranscriptCompacted) (events.TranscriptCompacted, []byte, error) {
	e.Snapshot = events.Hash{}
	if s.hist.SawExternal() { // it may have come in since this was decided
		e.Trust = "external"
	}
	data, err := s.red.JSON(e)
	if err != nil {
		return e, nil, fmt.Errorf("record %s: %w: %w", events.TypeOf(e), errUnrecordable, err)
	}
	v, _ := events.CurrentVersion(events.TypeOf(e))
	p, err := events.DecodePayload(events.TypeOf(e), v, data.Bytes())
	if err != nil {
		return e, nil, fmt.Errorf("record %s: %w: %w", events.TypeOf(e), errUnrecordable, err)
	}
	e, _ = p.(events.TranscriptCompacted)
	snap, err := s.hist.Snapshot(e)
	if err != nil || snap == nil {
		return e, nil, err
	}
	exempt := []string{"/messages/*/blocks/*/data"}
	args, err := loops.SnapshotArguments(snap)
	if err != nil {
		return e, nil, err
	}
	for _, a := range args {
		exempt = append(exempt, s.exemptArguments(a.At, a.Tool)...)
	}
	again, err := s.red.JSON(json.RawMessage(snap), exempt...)
	if err != nil || !bytes.Equal(again.Bytes(), snap) {
		s.log.Warn("no snapshot of the session's transcript: it has what looks like a secret; later runs read the events before the compaction too")
		return e, nil, nil
	}
	return e, snap, nil
}
