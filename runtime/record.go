package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
)

// couldBeMistaken reports whether a fact is an outcome that an older holder's
// call came to: it counts as cost, but while a call with the same numbers is
// out, the fold could not tell the two apart.
func couldBeMistaken(f events.Fact) bool {
	switch f.Type {
	case events.TypeOf(events.ModelCallFinished{}), events.TypeOf(events.ModelCallError{}):
		return true
	case events.TypeOf(events.ToolExecutionFinished{}), events.TypeOf(events.ToolExecutionError{}):
		var p struct {
			Ref *json.RawMessage `json:"ref"`
		}
		return json.Unmarshal(f.Data, &p) != nil || p.Ref == nil
	}
	return false
}

// Record implements [tools.Recorder]: redact, number, chain, append, fold.
func (s *session) Record(ctx context.Context, p events.Payload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.recordLocked(ctx, p)
	if err == nil && s.w.cfg.Live != nil {
		s.tellProgress(e)
	}
	return err
}

// recordAcked is Record that also waits for the journal.
func (s *session) recordAcked(ctx context.Context, ps ...events.Payload) error {
	r, err := s.recordAll(ctx, ps)
	if err != nil {
		return err
	}
	return await(ctx, r)
}

func (s *session) recordAll(ctx context.Context, ps []events.Payload) (events.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		if _, err := s.recordLocked(ctx, p); err != nil {
			return nil, err
		}
	}
	return s.last, nil
}

func await(ctx context.Context, r events.Receipt) error {
	if r == nil {
		return nil
	}
	select {
	case <-r.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errUnrecordable: the payload is too large, or has no recorded form. Nothing was
// appended, and the same payload will never be recorded.
var errUnrecordable = errors.New("this cannot be recorded")

func (s *session) recordLocked(ctx context.Context, p events.Payload) (events.Event, error) {
	data, err := s.red.JSON(p, s.exempt(p)...)
	if err != nil {
		return events.Event{}, fmt.Errorf("record %s: %w: %w", events.TypeOf(p), errUnrecordable, err)
	}
	v, _ := events.CurrentVersion(events.TypeOf(p))
	env := s.envelopeLocked(s.w.ids.Event(), events.TypeOf(p), v, s.run.Trace)
	sealed, err := events.Seal(env, data)
	if err != nil {
		return events.Event{}, fmt.Errorf("record %s: %w: %w", events.TypeOf(p), errUnrecordable, err)
	}
	return s.appendLocked(ctx, sealed)
}

func (s *session) envelopeLocked(id events.ID, t events.Type, version int, trace string) events.Envelope {
	now := s.w.cfg.Now()
	if last := s.hist.Time(); now.Before(last) {
		now = last
	}
	return events.Envelope{
		ID: id, RunID: s.run.ID, Seq: s.hist.Seq() + 1, Epoch: s.lease.Epoch, Type: t, Version: version,
		Time: now, Tenant: s.run.Tenant, SessionID: s.run.SessionID, Trace: trace, Prev: s.hist.Hash(),
	}
}

// appendLocked is where an event becomes part of the run: what the runtime acts
// on afterwards is what was appended, not what it had in hand.
func (s *session) appendLocked(ctx context.Context, sealed events.Sealed) (events.Event, error) {
	e, err := sealed.Decode()
	if err != nil {
		return events.Event{}, fmt.Errorf("%w: %w", errUnrecordable, err)
	}
	r, err := s.w.cfg.Journal.Append(ctx, sealed)
	if err != nil {
		return events.Event{}, fmt.Errorf("append %s: %w", e.Type, err)
	}
	if err := s.applyLocked(e); err != nil {
		return events.Event{}, err
	}
	s.prefix = append(s.prefix, sealed)
	s.last = r
	return e, nil
}

func (s *session) applyLocked(e events.Event) error {
	if err := s.hist.Apply(e); err != nil {
		return err
	}
	if events.Terminal(e.Type) && s.terminal == nil {
		s.terminal = e.Data
	}
	return nil
}

// pendingCall returns a call of the turn in hand that has no outcome.
func (s *session) pendingCall(id events.CallID) (loops.PendingCall, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.hist.Pending() {
		if c.ID == id {
			return c, true
		}
	}
	return loops.PendingCall{}, false
}

// errFact is a fact that this build cannot read. The run cannot even be parked
// before it is numbered, so it is left to a worker that can.
var errFact = errors.New("fact cannot be read by this worker")

// adoptLocked numbers a fact; one that is in the history is skipped.
func (s *session) adoptLocked(f events.Fact) error {
	if s.hist.Has(f.ID) {
		return nil
	}
	// A second pass: what was registered as secret since the fact was made is
	// taken out too.
	p, err := events.DecodePayload(f.Type, f.Version, f.Data)
	if err != nil {
		return fmt.Errorf("adopt fact of run %s: %w: %w", s.run.ID, errFact, err)
	}
	data, err := s.red.JSON(f.Data, s.exempt(p)...)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", f.Type, err)
	}
	trace := f.Trace
	if trace == "" {
		trace = s.run.Trace
	}
	sealed, err := events.Seal(s.envelopeLocked(f.ID, f.Type, f.Version, trace), data)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", f.Type, err)
	}
	// A fact is recorded whatever happens to the act around it.
	if _, err := s.appendLocked(s.w.life, sealed); err != nil {
		return err
	}
	if s.factsAt.IsZero() {
		s.factsAt = s.w.cfg.Now()
	}
	return nil
}

// exempt lists the arguments that a tool declares as identity or enum: an order
// number may look like a key, and an effect without its identity is another one.
func (s *session) exempt(p events.Payload) (all []string) {
	add := func(at, tool string) { all = append(all, s.exemptArguments(at, tool)...) }
	switch p := p.(type) {
	case events.ModelCallFinished:
		for i, c := range p.ToolCalls {
			add(fmt.Sprintf("/tool_calls/%d/arguments", i), c.Name)
		}
		if len(p.Blocks) > 0 {
			all = append(all, "/blocks/*/data") // signatures and cipher text, which look like keys
		}
	case events.StepPlanned:
		for i, c := range p.Calls {
			add(fmt.Sprintf("/calls/%d/arguments", i), c.Name)
		}
	case events.ToolExecutionStarted:
		add("/arguments", p.Tool)
	case events.ToolExecutionBlocked:
		add("/arguments", p.Tool)
	}
	return all
}

// exemptArguments is exempt for the arguments of one call, which stand at a JSON pointer.
func (s *session) exemptArguments(at, tool string) (all []string) {
	if t, ok := s.w.cfg.Tools.Lookup(tool); ok {
		for _, e := range t.Definition().Exempt() {
			all = append(all, at+e)
		}
	}
	return all
}

func (s *session) adopt(fs ...events.Fact) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range fs {
		if err := s.adoptLocked(f); err != nil {
			return err
		}
	}
	return nil
}
