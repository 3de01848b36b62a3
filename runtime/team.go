package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// freeText is what an agent is called with that declares no input of its own.
var freeText = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string","minLength":1,` +
	`"description":"the task, complete: what to do, with which facts, and what to answer"}},"required":["input"],"additionalProperties":false}`)

// AgentTool is what an agent is declared as where another one calls it as a tool,
// without the schema of what it takes.
func AgentTool(c agents.Callee, of agents.Agent) *tools.Definition {
	return &tools.Definition{
		Name: c.Tool(),
		Description: of.Description + "\n\nThis is another agent. It knows nothing but what you write here; its answer is the result. " +
			"Call several agents in one turn to have them work side by side.",
		Effect: tools.Idempotent,
		Trust:  tools.Own, // of what is said here; an answer has the trust of the child's own history
		Pinned: true,
	}
}

// agentTool is an agent as a tool of another one: a call of it is a child run,
// whose answer is the result.
func agentTool(c agents.Callee, of agents.Agent) (tools.Tool, error) {
	schema := of.Input
	if schema == nil {
		schema = freeText
	}
	return tools.Raw(*AgentTool(c, of), schema, func(ctx context.Context, inv *tools.Invocation) (any, error) {
		if inv.Spawner == nil {
			return nil, errors.New("child runs cannot be started here")
		}
		input := inv.Handles // the child substitutes secrets where it uses them
		if input == nil {
			input = inv.Arguments
		}
		if of.Input == nil {
			var text struct{ Input string }
			if err := json.Unmarshal(input, &text); err != nil {
				return nil, err
			}
			var err error
			if input, err = json.Marshal(text.Input); err != nil {
				return nil, err
			}
		}
		child, err := inv.Spawner.Spawn(ctx, inv, tools.Spawn{Agent: c.Agent, Input: input, Trust: tools.Own, Budget: c.Budget})
		if err != nil {
			return nil, err
		}
		return tools.HandedOff{Reason: events.ParkChild, Child: child}, nil
	})
}

// withTeam are an agent's tools with the agents that it may call.
func withTeam(a *agents.Agent) []string {
	names := slices.Clone(a.Tools)
	for _, c := range a.Agents {
		names = append(names, c.Tool())
	}
	return names
}

// registry is the worker's with the agents that a may call.
func (w *Worker) registry(a *agents.Agent) *tools.Registry {
	if len(a.Agents) == 0 {
		return w.cfg.Tools
	}
	reg := new(tools.Registry)
	errs := []error{reg.Add(w.cfg.Tools.Tools()...)}
	for _, c := range a.Agents {
		t, err := agentTool(c, w.agents[c.Agent])
		if err == nil {
			err = reg.Add(t)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil { // NewWorker has found what can be found beforehand
		w.log.Error("not every agent can be called", "agent", a.Name, "error", w.cfg.Redactor.Error(err))
	}
	return reg
}

// checkTeam finds names that a tool of the worker has already.
func checkTeam(a *agents.Agent, reg *tools.Registry) (errs []error) {
	for _, c := range a.Agents {
		if _, taken := reg.Lookup(c.Tool()); taken {
			errs = append(errs, fmt.Errorf("agent %q may call agent %q as the tool %q, and there is another tool of that name: rename one", a.Name, c.Agent, c.Tool()))
		}
	}
	return errs
}

// bindTeam adds to what a run freezes about tools which of them are agents, and what
// a call of them may spend.
func bindTeam(a *agents.Agent, bs []events.ToolBinding) []events.ToolBinding {
	for i := range bs {
		for _, c := range a.Agents {
			if bs[i].Name == c.Tool() {
				bs[i].Agent, bs[i].Budget = c.Agent, c.Budget
			}
		}
	}
	return bs
}

// binding is what the run has frozen about a tool; the zero one for none.
func (s *session) binding(tool string) events.ToolBinding {
	for _, b := range s.hist.Started().Tools {
		if b.Name == tool {
			return b
		}
	}
	return events.ToolBinding{}
}

// least is the lesser of two limits; nil is none.
func least(a, b *events.PicoUSD) *events.PicoUSD {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// childBudget is what a call gives its child to spend: what the run was started with
// or what holds now, and not more than the child's agent spends anyhow. A call
// that gives nothing leaves it to that agent.
func (s *session) childBudget(tool string, sp tools.Spawn) *events.PicoUSD {
	given := least(sp.Budget, s.binding(tool).Budget)
	if given == nil {
		return nil
	}
	return least(given, s.w.agents[sp.Agent].Budget)
}

// withinTeam leaves out calls of agents, and of delegate, beyond how many may be under
// way at once. Which other tools start children nobody knows before they have.
func (s *session) withinTeam(calls []loops.PendingCall) []loops.PendingCall {
	most := s.agent.Limits.MaxChildren
	if most <= 0 {
		return calls
	}
	under := 0
	for _, h := range s.handedOff() {
		if h.Reason == events.ParkChild {
			under++
		}
	}
	out := make([]loops.PendingCall, 0, len(calls))
	for _, c := range calls {
		if s.binding(c.Name).Agent != "" || c.Name == tools.DelegateName {
			if under >= most {
				continue
			}
			under++
		}
		out = append(out, c)
	}
	return out
}

// guardOf is what a run's parent asks of it; nil for nothing.
func guardOf(r ledger.Run) (*events.Guard, error) {
	if len(r.Guard) == 0 || bug.On(bug.TaintLaundered) {
		return nil, nil
	}
	g := new(events.Guard)
	if err := json.Unmarshal(r.Guard, g); err != nil {
		return nil, fmt.Errorf("read what the parent of run %s asks of it: %w: %w", r.ID, err, errUnworkable)
	}
	return g, nil
}

// parentPolicy is nil for none.
func (s *session) parentPolicy() *events.Policy {
	if s.asked == nil {
		return nil
	}
	return s.asked.Policy
}

// guardChild is what this run asks of a child that it starts now.
func (s *session) guardChild() (redact.JSON, error) {
	g := events.Guard{Policy: s.policy.event(), Taint: s.taintedBy(), Effects: string(s.run.ForkEffects), Depth: s.depth() + 1}
	var levels *int
	if most := s.agent.Limits.MaxDepth; most > 0 {
		levels = &most
	}
	if s.asked != nil && s.asked.Levels != nil && (levels == nil || *s.asked.Levels < *levels) {
		levels = s.asked.Levels
	}
	if levels != nil {
		if *levels <= 0 {
			return redact.JSON{}, &tools.SpawnError{Kind: tools.KindTooDeep, Err: errors.New(
				"this agent may not call others: max_depth of those that it works for allows no further level; do it without")}
		}
		below := *levels - 1
		g.Levels = &below
	}
	j, err := s.red.JSON(g)
	if err == nil && j.Len() > maxGuard {
		err = fmt.Errorf("what is asked of it, the rules and approvals of this run, has %d bytes, at most %d: do it without", j.Len(), maxGuard)
	}
	return j, err
}

// refusedChild tells a model why there is no child.
func refusedChild(err error) error {
	kind := ""
	switch {
	case errors.Is(err, ledger.ErrBudget):
		kind = tools.KindBudget
	case errors.Is(err, ledger.ErrTooDeep):
		kind = tools.KindTooDeep
	case errors.Is(err, ledger.ErrTooManyChildren):
		kind = tools.KindTooManyChildren
	default:
		return fmt.Errorf("%w: %w", errNoChild, err)
	}
	return &tools.SpawnError{Kind: kind, Err: fmt.Errorf("%w: %w", errNoChild, err)}
}

// answer is what a run that waits for this one is told instead of its result: the
// artifact itself, where the result only names it.
func (s *session) answer(ctx context.Context, end ledger.Ending) (string, error) {
	s.mu.Lock()
	made := s.hist.Accepted()
	s.mu.Unlock()
	if s.run.Parent.IsZero() || end.StoppedBy != events.StoppedByArtifactFinished || made == nil {
		return "", nil
	}
	b, err := s.blob(ctx, made.Content)
	if err != nil {
		return "", fmt.Errorf("read artifact %q: %w", made.Name, err)
	}
	return string(b), nil
}
