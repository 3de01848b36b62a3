package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// kindUnrecordable is the kind of the error that ends a run whose script asks for
// something that no event can hold. Stored; never renamed.
const kindUnrecordable = "step_unrecordable"

// kindNameRedacted is the kind of the error that ends a run whose script gives a
// step a name that is taken for a secret. Stored; never renamed.
const kindNameRedacted = "step_name_redacted"

// divergedRecheck is how often a run whose script has diverged is looked at: code
// that fits may be there.
const divergedRecheck = time.Minute

// openLoop makes a loop that is code ready to decide; it is closed with the session.
func (s *session) openLoop(l loops.Loop) {
	s.loop = l
	if o, ok := l.(loops.Opener); ok {
		s.decider = o.Open(loops.Host{Go: s.w.hostCode.Go, Patience: s.w.cfg.CallbackTimeout})
	}
}

func (s *session) closeLoop() {
	if s.decider != nil {
		s.decider.Close()
	}
}

// plan records what the code of a script asks for. Whatever is done for it is done
// from the record.
func (s *session) plan(ctx context.Context, step loops.Plan) error {
	if name, err := s.nameRedacted(step.Step); name != "" || err != nil {
		if err != nil {
			return err
		}
		return s.end(ctx, events.RunFailed{
			StoppedBy: events.StoppedByError, Turns: s.hist.Turns(),
			Error: events.ErrorInfo{Kind: kindNameRedacted, Message: fmt.Sprintf("step %d of the script (%s): a name in it would be recorded as %q, since it is taken for a secret. "+
				"The code finds its steps again by their names: choose one that does not look like a key", step.Step.Step, step.Step.Op, name)},
		})
	}
	ps := []events.Payload{step.Step}
	if step.Step.Turn > s.hist.Turn() {
		ps = []events.Payload{events.TurnStarted{Turn: step.Step.Turn}, step.Step}
	}
	_, err := s.recordAll(ctx, ps)
	if errors.Is(err, errUnrecordable) {
		return s.end(ctx, events.RunFailed{
			StoppedBy: events.StoppedByError, Turns: s.hist.Turns(),
			Error: events.ErrorInfo{Kind: kindUnrecordable, Message: fmt.Sprintf("step %d of the script (%s): %v: pass a reference to what is large", step.Step.Step, step.Step.Op, err)},
		})
	}
	return err
}

// nameRedacted returns the first name in a step as it would be recorded, if that is not
// as the code has it: two that become one marker could not be told apart.
func (s *session) nameRedacted(step events.StepPlanned) (string, error) {
	names := append([]string{step.Name}, step.Validators...)
	for _, c := range step.Calls {
		names = append(names, c.Name)
	}
	j, err := s.red.JSON(names)
	if err != nil {
		return "", fmt.Errorf("names of step %d: %w", step.Step, err)
	}
	var recorded []string
	if err := json.Unmarshal(j.Bytes(), &recorded); err != nil {
		return "", fmt.Errorf("names of step %d: %w", step.Step, err)
	}
	for i, name := range recorded {
		if name != names[i] {
			return name, nil
		}
	}
	return "", nil
}

// dispatcherFor is what performs a call: the agent's tools, or for what a script
// waits for the script's own.
func (s *session) dispatcherFor(own bool) *tools.Dispatcher {
	if !own {
		return s.disp
	}
	return s.w.ownDispatcher(s.red, s.run.Tenant)
}

// destructiveCall reports whether a call goes through the effect protocol.
func (s *session) destructiveCall(c loops.PendingCall) bool {
	return !c.OwnTool() && s.destructive(c.Name)
}

// ownDispatcher is the pipeline for the own tools of scripts. No filter, middleware
// or permission of the host's stands before what its own code asks for, and no
// secret is put in: they go to no provider.
func (w *Worker) ownDispatcher(red *redact.Redactor, tenant string) *tools.Dispatcher {
	key := tenant + "\x00\x00script"
	if d, ok := w.disps.Load(key); ok {
		return d.(*tools.Dispatcher)
	}
	made, _ := w.disps.LoadOrStore(key, tools.NewDispatcher(w.own, tools.Config{Redactor: red, Now: w.cfg.Now, Logger: w.log}))
	return made.(*tools.Dispatcher)
}

// ownTools are what scripts wait with: hand-offs like those of the tools that
// models have for it, under names that only a script's calls are looked up by.
func (w *Worker) ownTools() (*tools.Registry, error) {
	reg := new(tools.Registry)
	for _, t := range []struct {
		name, description string
		effect            tools.Effect
		trust             tools.Trust
		call              func(context.Context, *tools.Invocation) (any, error)
	}{
		{loops.SleepTool, "Lets time pass.", tools.Readonly, tools.Own, w.sleep},
		{loops.SignalTool, "Waits for a signal.", tools.Readonly, tools.External, awaitSignal},
		// What the child has read may have come from anywhere.
		{loops.ChildTool, "Has another agent do something.", tools.Idempotent, tools.External, spawnChild},
	} {
		made, err := tools.Raw(tools.Definition{Name: t.name[len("script__"):], Description: t.description, Effect: t.effect, Trust: t.trust}, json.RawMessage(`{"type":"object"}`), t.call)
		if err == nil {
			made, err = tools.Namespaced("script", made)
		}
		if err == nil {
			err = reg.Add(made)
		}
		if err != nil {
			return nil, err
		}
	}
	return reg, nil
}

func (w *Worker) sleep(_ context.Context, inv *tools.Invocation) (any, error) {
	var in struct {
		MS    int64     `json:"ms"`
		Until time.Time `json:"until"`
	}
	if err := json.Unmarshal(inv.Arguments, &in); err != nil {
		return nil, err
	}
	now := w.cfg.Now()
	d := time.Duration(in.MS) * time.Millisecond
	if !in.Until.IsZero() {
		if d = in.Until.Sub(now); d <= 0 {
			return "that moment has passed", nil
		}
	}
	return tools.HandedOff{Reason: events.ParkTimer, For: d, ExpiresAs: "waited until " + now.Add(d).UTC().Format(time.RFC3339Nano)}, nil
}

func awaitSignal(_ context.Context, inv *tools.Invocation) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Within int64  `json:"within_ms"`
	}
	if err := json.Unmarshal(inv.Arguments, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, errors.New("the signal has no name")
	}
	return tools.HandedOff{Reason: events.ParkSignal, Signal: in.Name, For: time.Duration(in.Within) * time.Millisecond}, nil
}

func spawnChild(ctx context.Context, inv *tools.Invocation) (any, error) {
	var in struct {
		Agent string          `json:"agent"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(inv.Arguments, &in); err != nil {
		return nil, err
	}
	child, err := inv.Spawner.Spawn(ctx, inv, tools.Spawn{Agent: in.Agent, Input: in.Input, Trust: tools.Own})
	if err != nil {
		return nil, err
	}
	return tools.HandedOff{Reason: events.ParkChild, Child: child}, nil
}
