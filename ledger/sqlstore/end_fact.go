package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// putInDoubt moves a started effect to in doubt because its attempt a will not
// be heard of in time, and tells a's run.
func (s *Store) putInDoubt(ctx context.Context, tx Tx, e *effectRow, a attemptRow, cause, evidence string) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = s.doubt(ctx, tx, e, a, cause, evidence, now)
	return err
}

// doubt makes e in doubt and inserts the fact for a's call, once per attempt.
func (s *Store) doubt(ctx context.Context, tx Tx, e *effectRow, a attemptRow, cause, evidence string, now time.Time) (*events.Fact, error) {
	e.State, e.Evidence = events.EffectInDoubt, cause
	if evidence != "" {
		e.Evidence += ": " + evidence
	}
	if err := e.setState(ctx, tx); err != nil {
		return nil, err
	}
	return s.outcome(ctx, tx, a, events.ToolExecutionInDoubt{
		Call: a.Call, Attempt: a.callAttempt, Tool: e.Tool, Ref: a.ref(*e), Cause: cause, Evidence: evidence,
		Deadline: a.Deadline, Continue: a.continues, At: now,
	})
}

// outcome inserts a fact of an attempt under its derived id. If the run's
// history has the event already it returns nil.
func (s *Store) outcome(ctx context.Context, tx Tx, a attemptRow, p events.Payload) (*events.Fact, error) {
	id := events.DerivedID(a.Token, events.TypeOf(p))
	f, inserted, err := s.addFact(ctx, tx, a.Run, id, p, a.trace)
	if err != nil {
		return nil, err
	}
	if inserted {
		return &f, nil
	}
	return factByIDs(ctx, tx, a.Run, []events.ID{id})
}

// outcomeFact tells the attempt's run how its call ended. After a fact that the
// call is in doubt it is the resolution; a resolution that stands already is
// not replaced but followed by what really happened.
func (st *settling) outcomeFact(ctx context.Context, late bool) (*events.Fact, error) {
	a, ref := st.a, st.a.ref(st.e)
	result := st.result()
	switch {
	case (late || st.before.Outcome == ledger.Unclear) && a.resolved == "":
		return st.s.outcome(ctx, st.tx, a, events.EffectResolved{
			Call: a.Call, Tool: st.e.Tool, Ref: ref, State: st.e.State, Result: result, By: byLateEvidence, At: st.now,
		})
	case st.e.State == events.EffectApplied:
		return st.s.outcome(ctx, st.tx, a, events.ToolExecutionFinished{
			Call: a.Call, Attempt: a.callAttempt, Tool: st.e.Tool, Result: result, Ref: &ref, LatencyMS: st.out.LatencyMS, At: st.now,
		})
	}
	return st.s.outcome(ctx, st.tx, a, events.ToolExecutionError{
		Call: a.Call, Attempt: a.callAttempt, Tool: st.e.Tool, Result: result, Error: st.out.Error, Ref: &ref, LatencyMS: st.out.LatencyMS, At: st.now,
	})
}

// result is what the model reads of the attempt's own outcome.
func (st *settling) result() events.ToolResult {
	if st.a.Result != nil {
		return *st.a.Result
	}
	if st.e.State == events.EffectApplied {
		return events.ToolResult{Status: "completed"}
	}
	return events.ToolResult{Status: "failed", Error: st.out.Error.Message}
}

// repeatedFact closes the call of an attempt that came back after another call
// had settled the effect. A call that has its outcome gets no second one.
func (st *settling) repeatedFact(ctx context.Context) (*events.Fact, error) {
	a, of := st.a, st.as.byToken(st.e.settledToken)
	if st.e.State != events.EffectApplied || of.call() == a.call() || a.Number != st.e.Attempts {
		return nil, nil
	}
	ref, first := a.ref(st.e), of.call()
	p := events.ToolExecutionFinished{
		Call: a.Call, Attempt: a.callAttempt, Tool: st.e.Tool, Ref: &ref, Repeated: true, Of: &first, Redacted: true,
		LatencyMS: st.out.LatencyMS, At: st.now,
	}
	if st.out.Kind == ledger.Applied { // it had an effect of its own
		p.Repeated, p.Of, p.Redacted, p.Result = false, nil, false, st.result()
	} else if st.e.Outcome != nil {
		p.Result = *st.e.Outcome
	}
	return st.s.outcome(ctx, st.tx, a, p)
}

// tellOthers gives the outcome to other calls that wait for it because an
// attempt of theirs is in doubt.
func (s *Store) tellOthers(ctx context.Context, tx Tx, e effectRow, as attempts, settled attemptRow, by string, now time.Time) error {
	for _, o := range as {
		if !o.unclear() || o.call() == settled.call() {
			continue
		}
		if o.Number == e.Attempts && !o.ended() {
			continue // still running: its own End closes its call
		}
		_, err := s.outcome(ctx, tx, o, events.EffectResolved{
			Call: o.Call, Tool: e.Tool, Ref: o.ref(e), State: e.State, Result: toldResult(e, by), By: by, At: now,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pendingOutcome is the newest fact that tells a's run how its call stands;
// nil if the run's history has it.
func pendingOutcome(ctx context.Context, tx Tx, a attemptRow) (*events.Fact, error) {
	var ids []events.ID
	for _, p := range []events.Payload{
		events.ToolExecutionFinished{}, events.ToolExecutionError{}, events.ToolExecutionInDoubt{}, events.EffectResolved{},
	} {
		ids = append(ids, events.DerivedID(a.Token, events.TypeOf(p)))
	}
	return factByIDs(ctx, tx, a.Run, ids)
}

// factByIDs returns the newest pending fact of a run among ids, or nil.
func factByIDs(ctx context.Context, tx Tx, run events.RunID, ids []events.ID) (*events.Fact, error) {
	f := events.Fact{RunID: run}
	var data []byte
	err := tx.QueryRow(ctx, `
		SELECT event_id, type, version, trace, data, created_at FROM facts
		WHERE run_id = $1 AND `+tx.InIDs("event_id", 2)+` ORDER BY id DESC LIMIT 1`, run, ids).
		Scan(&f.ID, &f.Type, &f.Version, &f.Trace, &data, &f.At)
	if errors.Is(err, ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read pending outcome of run %s: %w", run, err)
	}
	f.Data = data
	return &f, nil
}

// maxForeignBytes is how large a value may be that is handed in as JSON, such as
// the data of a signal. Larger ones belong elsewhere, and a reference here.
const maxForeignBytes = 192 << 10

// fitting cuts an outcome to what an event holds of it: evidence is cut rather
// than refused. It is redacted before: half a secret is not found. Markers may be
// longer than what they stand for.
func (s *Store) fitting(out ledger.Outcome) ledger.Outcome {
	red := s.cfg.Redactor.String
	out.Result.Output, out.Result.Error, out.Error.Message = red(out.Result.Output), red(out.Result.Error), red(out.Error.Message)
	out.Result.Sources = slices.Clone(out.Result.Sources)
	for i, src := range out.Result.Sources {
		out.Result.Sources[i] = events.Source{Title: red(src.Title), URL: red(src.URL)}
	}
	out.Result, out.Error = out.Result.Fit(), out.Error.Fit()
	if j, err := s.cfg.Redactor.JSON(out.Result); err == nil && j.Len() <= events.MaxDataBytes-maxBeside {
		return out
	}
	out.Result.Sources = nil
	out.Result = out.Result.Fit()
	return out
}

// maxBeside is what an event holds beside a result.
const maxBeside = 14 << 10

func cut(s string) string {
	const most = 4 << 10
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
