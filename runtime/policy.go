package runtime

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/tools"
	rules "github.com/daybookhq/daybook/tools/policy"
)

// policy is what stands between a run's destructive calls and the world: what
// its agent and its tools ask for, here and now and when it was started. The
// stricter counts, so that a relaxed file does not relax a run that is under way.
type policy struct {
	approve []string // sorted; "*" is every tool
	taint   string   // never empty
	priced  bool     // no call is made whose price nobody knows
	ttl     time.Duration
	version events.Hash
	rules   rules.Policy
	limit   *events.PicoUSD // what the run may spend, as the rules see it; nil = no limit, or no rules
}

// policyOf combines the agent, its tools, the operator's rules, what the run is
// bound to and what its parent asks of it, nil for nothing. The error is one of rules
// that this build cannot read.
func policyOf(a *agents.Agent, d *tools.Dispatcher, operator *rules.List, bounds ...*events.Policy) (policy, error) {
	p := policy{approve: slices.Clone(a.Approve), taint: stricterTaint(a.Taint, ""), ttl: a.ApprovalTimeout, priced: a.BudgetUnpriced == unpricedRefuse}
	for _, name := range a.Tools {
		if def, ok := d.Definition(name); ok && def.Approval {
			p.approve = append(p.approve, name)
		}
	}
	for _, bound := range bounds {
		if bound == nil {
			continue
		}
		p.approve = append(p.approve, bound.Approve...)
		p.taint = stricterTaint(p.taint, bound.Taint)
		p.priced = p.priced || bound.Unpriced == unpricedRefuse
		if ttl := time.Duration(bound.ApprovalSeconds) * time.Second; ttl > 0 && (p.ttl == 0 || ttl < p.ttl) {
			p.ttl = ttl
		}
	}
	slices.Sort(p.approve)
	p.approve = slices.Compact(p.approve)
	if p.ttl == 0 {
		p.ttl = ledger.DefaultApprovalTTL
	}
	if err := p.addRules(a, operator, bounds); err != nil {
		return policy{}, err
	}
	p.version = p.hash()
	return p, nil
}

// unpricedRefuse is how agents and events say that a call without a known price
// is refused. Stored; never renamed.
const unpricedRefuse = "refuse"

func stricterTaint(a, b string) string {
	for _, t := range []string{ledger.TaintDeny, ledger.TaintAsk} {
		if a == t || b == t {
			return t
		}
	}
	return ledger.TaintAllow
}

// hash is the version of a policy: an approval given under one is none under another.
func (p policy) hash() events.Hash {
	b, err := canonical.Marshal(p.event())
	if err != nil { // tool names are plain text
		panic(fmt.Sprintf("hash policy: %v", err))
	}
	return sha256.Sum256(append([]byte("daybook/policy/1\x00"), b...))
}

// event is what run_started freezes; nil for a policy that asks for nothing.
func (p policy) event() *events.Policy {
	e := events.Policy{Approve: p.approve}
	if p.taint != ledger.TaintAllow {
		e.Taint = p.taint
	}
	if p.priced {
		e.Unpriced = unpricedRefuse
	}
	e.Rules, e.Limit = p.rules.Record(), p.limit
	if len(e.Approve) == 0 && e.Taint == "" && len(e.Rules) == 0 {
		if p.priced {
			return &e
		}
		return nil
	}
	e.ApprovalSeconds = int64((p.ttl + time.Second - 1) / time.Second)
	return &e
}

// asks reports whether each call of a tool needs an approval.
func (p policy) asks(tool string) bool {
	return slices.Contains(p.approve, ledger.EveryTool) || slices.Contains(p.approve, tool)
}

// guardIntent adds to an intent what Begin needs to decide whether it may be done.
func (s *session) guardIntent(li *ledger.Intent, in tools.Intent) {
	def, by := in.Tool, s.taintedBy()
	li.AskRule = in.AskedBy
	li.Ask, li.ApprovalTTL, li.Policy = s.policy.asks(def.Name) || in.AskedBy != "", s.policy.ttl, s.policy.version
	li.TaintPolicy = s.policy.taint
	li.Tainted, li.TaintBy = by != "", by
	if li.Ask || li.Tainted && li.TaintPolicy == ledger.TaintAsk || s.run.ForkEffects == ledger.ForkAsk {
		li.ToolHash = def.Hash() // only an approval is bound to it
	}
}

// taintedBy says what first brought text from outside into the run; empty = nothing has.
func (s *session) taintedBy() string {
	s.mu.Lock()
	from := s.hist.External()
	s.mu.Unlock()
	if from == nil {
		return ""
	}
	trust := from.Trust
	if trust == "" {
		trust = "unknown"
	}
	by := fmt.Sprintf("%s, trust %s", from.Tool, trust)
	if from.Call != (events.CallID{}) {
		by = from.Call.String() + " " + by
	}
	return by
}

// checkApprove finds tools that an agent wants approved and that the ledger
// does not decide about.
func checkApprove(a *agents.Agent, reg *tools.Registry) (errs []error) {
	for _, name := range a.Approve {
		if t, ok := reg.Lookup(name); ok && !t.Definition().IsDestructive() {
			errs = append(errs, fmt.Errorf("agent %q wants calls of tool %q approved, which is declared %s: approvals guard destructive calls, declare it destructive",
				a.Name, name, t.Definition().Effect))
		}
	}
	return errs
}
