package runtime

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/tools"
	rules "github.com/daybookhq/daybook/tools/policy"
)

// asStarted is how decisions call rules that a run keeps and that are not those
// of the files any more.
const asStarted = " as it was when the run was started"

// addRules puts the rules of operator and agent together with those that the run
// is bound to, and the least of the limits. Rules that have not changed count once.
func (p *policy) addRules(a *agents.Agent, operator *rules.List, bounds []*events.Policy) error {
	now := rules.Combine(rules.Policy{operator, a.Policy})
	all := rules.Combine(now)
	p.limit = a.Budget
	for _, b := range bounds {
		if b == nil {
			continue
		}
		for _, r := range b.Rules {
			l, err := recordedList(now, r)
			if err != nil {
				return err
			}
			all = rules.Combine(all, rules.Policy{l})
		}
		if b.Limit != nil && (p.limit == nil || *b.Limit < *p.limit) {
			p.limit = b.Limit
		}
	}
	if p.rules = all; len(all) == 0 {
		p.limit = nil
	}
	return nil
}

// recordedList is what a run kept, compiled; one of now if it is the same.
func recordedList(now rules.Policy, r events.PolicyList) (*rules.List, error) {
	for _, l := range now {
		if reflect.DeepEqual(l.Record().Rules, r.Rules) {
			return l, nil
		}
	}
	if !strings.HasSuffix(r.Source, asStarted) {
		r.Source += asStarted
	}
	return rules.Recorded(r)
}

// ruling is what the run's rules make of calls; nil if there are none.
func (s *session) ruling() func(*tools.Definition, tools.Effect, tools.Call) tools.Ruling {
	if len(s.policy.rules) == 0 {
		return nil
	}
	return func(def *tools.Definition, effect tools.Effect, c tools.Call) tools.Ruling {
		f := s.facts(effect, c)
		d := rules.Decision{Then: rules.Allow}
		for i, t := range s.ruledAs(def, effect) {
			f.Tool = t
			if x := s.policy.rules.Decide(f); i == 0 || rules.Stricter(d.Then, x.Then) != d.Then {
				d = x
			}
		}
		return tools.Ruling{Deny: d.Then == rules.Deny, Ask: d.Then == rules.Ask, Rule: d.By(), Text: d.Text()}
	}
}

// ruledAs is the tool as the rules see it. Effect and trust come as the stricter of what
// is declared now and what the run was started with. There is no stricter kind of
// recovery, nor a stricter pin, so the rules are asked about both, and the stricter
// decision counts.
func (s *session) ruledAs(def *tools.Definition, effect tools.Effect) []rules.Tool {
	now := rules.Of(def.Name, string(effect), string(def.Recovery.Kind), string(def.Trust), def.Pinned)
	all := []rules.Tool{now}
	s.mu.Lock()
	was := s.binding(def.Name)
	s.mu.Unlock()
	recovery, pinned := now.Recovery, now.Pinned
	if was.Recovery != "" {
		recovery = was.Recovery
	}
	if was.Trust != "" { // else it was not recorded
		pinned = was.Pinned
	}
	for _, t := range []rules.Tool{
		rules.Of(now.Name, now.Effect, recovery, now.Trust, now.Pinned),
		rules.Of(now.Name, now.Effect, now.Recovery, now.Trust, pinned),
		rules.Of(now.Name, now.Effect, recovery, now.Trust, pinned),
	} {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// facts are what is recorded of a call and its run, but for the tool: the same after a
// crash.
func (s *session) facts(effect tools.Effect, c tools.Call) *rules.Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	basis := s.hist.Basis()
	external := basis.External
	if effect == tools.Destructive {
		// It is alone, and everything before it in the turn has its outcome.
		external = s.hist.External()
	}
	f := &rules.Facts{
		Arguments: c.Arguments,
		Cost:      rules.Cost{Spent: basis.Spent, Unpriced: basis.Unpriced, Limit: s.policy.limit},
		Run: rules.Run{
			Agent: s.agent.Name, Owner: s.run.Owner, Tenant: s.run.Tenant, Queue: s.run.Queue, Turn: s.hist.Turns(), Depth: s.depth(),
		},
	}
	if q := s.hist.Queued(); q != nil {
		f.Run.Owner, f.Run.Queue = q.Owner, q.Queue
	}
	if external != nil {
		f.Tainted, f.TaintedBy = true, external.Tool
	}
	return f
}

// depth is how far below a run that is nobody's child this one is. Forks and retries
// are as deep as the run that they go on from or try again. Of runs that were started
// before it was recorded it is 2 for all below the children.
func (s *session) depth() int {
	switch {
	case s.asked != nil && s.asked.Depth > 0:
		return s.asked.Depth
	case s.run.Parent.IsZero() && s.asked == nil:
		return 0
	case s.run.Parent.IsZero() || s.run.Parent == s.run.Root:
		return 1
	}
	return 2
}

// maxRules is how many bytes of rules a run and those that it works for are bound to
// at most: they all stand in the first events of the deepest one.
const maxRules = events.MaxDataBytes / 4

// checkRulesSize finds rules that are too many: of the operator and of as many agents
// as may call one another.
func checkRulesSize(operator *rules.List, as []*agents.Agent) error {
	size := func(l *rules.List) int {
		b, err := canonical.Marshal(l.Record())
		if err != nil {
			return 0 // rules are plain text
		}
		return len(b)
	}
	var sizes []int
	for _, a := range as {
		sizes = append(sizes, size(a.Policy))
	}
	slices.Sort(sizes)
	n := size(operator)
	for i, s := range slices.Backward(sizes) {
		if len(sizes)-i > ledger.MaxDepth+1 {
			break
		}
		n += s
	}
	if n <= maxRules {
		return nil
	}
	return fmt.Errorf("the rules of the operator and of the %d agents with most of them have %d bytes together, at most %d: runs record them all; make them fewer or shorter",
		min(len(as), ledger.MaxDepth+1), n, maxRules)
}

// checkRules finds rules about tools that there are not, and ones that ask about
// calls that the ledger does not decide about, and ones that would be others in the
// record.
func (w *Worker) checkRules(operator *rules.List, as []*agents.Agent, reg *tools.Registry) (errs []error) {
	if err := checkRulesSize(operator, as); err != nil {
		errs = append(errs, err)
	}
	var all []rules.Tool
	var names []string
	for _, t := range reg.Tools() {
		all, names = append(all, ruledTool(t.Definition())), append(names, t.Definition().Name)
	}
	for _, err := range slices.Concat(operator.CheckTypos(names), operator.CheckAsks(all), operator.CheckRedaction(w.cfg.Redactor)) {
		where := operator.Source()
		var f *rules.Fault
		if errors.As(err, &f) && f.Line > 0 {
			where = fmt.Sprintf("%s, line %d", where, f.Line)
		}
		errs = append(errs, fmt.Errorf("%s: %w", where, err))
	}
	for _, a := range as {
		var own []rules.Tool
		team := w.registry(a)
		for _, name := range a.ToolNames() {
			if t, ok := team.Lookup(name); ok {
				own = append(own, ruledTool(t.Definition()))
			}
		}
		for _, err := range slices.Concat(a.Policy.CheckNames(a.ToolNames()), a.Policy.CheckAsks(own), a.Policy.CheckRedaction(w.cfg.Redactor)) {
			where := fmt.Sprintf("agent %q", a.Name)
			var f *rules.Fault
			if errors.As(err, &f) && f.Line > 0 && a.Path != "" {
				where = fmt.Sprintf("%s:%d: policy", a.Path, f.Line)
			}
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	return errs
}

func ruledTool(d *tools.Definition) rules.Tool {
	return rules.Of(d.Name, string(d.EffectOrDestructive()), string(d.Recovery.Kind), string(d.Trust), d.Pinned)
}
