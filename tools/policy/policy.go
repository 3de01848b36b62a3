// Package policy decides about tool calls by rules that people write: lists of
// conditions, each with what becomes of the calls it holds for: allow, deny, or
// ask a person. Conditions are expressions (the language of expr-lang/expr) over
// what is recorded of a run, so that the same call is decided the same way after
// a crash: there is no clock, no randomness and no look at the world.
//
// In a list the first rule that holds decides; of several lists, the strictest
// decision counts. A rule permits nothing that something else forbids. Whatever
// cannot be evaluated denies.
package policy

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
)

// Outcome is what becomes of a call. Stored; never renamed. Empty is Allow.
type Outcome string

// Outcomes, from the loosest to the strictest.
const (
	Allow Outcome = "allow"
	Ask   Outcome = "ask"  // a person has to approve it
	Deny  Outcome = "deny" // it is not run
)

// Stricter returns the stricter of two outcomes. One that is none counts as Deny.
func Stricter(a, b Outcome) Outcome {
	if b.strictness() > a.strictness() {
		return b
	}
	return a
}

func (o Outcome) strictness() int {
	switch o {
	case Allow, "":
		return 0
	case Ask:
		return 1
	}
	return 2
}

// Rule says what becomes of the calls that it holds for. It is plain data, in
// files, in code and in the record of a run.
type Rule struct {
	// When is an expression that is true or false; see [Facts] for what it can name.
	When string
	Then Outcome
	// Because is told to the model, to whoever is asked, and to auditors. Required
	// but for Allow.
	Because string
	// Line is where it stands in its file; 0 = in none.
	Line int
}

// Bounds of a list.
const (
	MaxRules   = 100
	MaxWhen    = 2000 // bytes
	MaxBecause = 500  // bytes
)

// Tool is what rules know of a tool.
type Tool struct {
	Name string
	// Effect is readonly, idempotent or destructive, Recovery none, keyed, fenced or
	// probe, Trust own, external or unknown.
	Effect, Recovery, Trust string
	Pinned                  bool
}

// Run is what rules know of a run. All of it is recorded.
type Run struct {
	Agent, Owner, Tenant, Queue string
	Turn                        int // of the call, from 1
	Depth                       int // 0 = nobody's child, 1 = a child, 2 = a child's child or further down
}

// Cost is what rules know of money: what was recorded when the model asked for
// the call.
type Cost struct {
	Spent events.PicoUSD
	// Unpriced counts what was billed and has no known price: it is not in Spent.
	Unpriced int
	Limit    *events.PicoUSD // nil = none
}

// Facts are what a call is decided by. Expressions name them
//
//	tool.name tool.effect tool.recovery tool.trust tool.pinned
//	args.NAME                    the arguments, as they are recorded
//	tainted tainted_by           text from outside has come in, and by which tool
//	cost.spent cost.limit cost.left cost.unpriced   dollars; limit and left are nil without one
//	run.agent run.owner run.tenant run.queue run.turn run.depth
type Facts struct {
	Tool Tool
	// Arguments are canonical: what the effect is bound to. Empty means {}.
	Arguments json.RawMessage
	Tainted   bool
	TaintedBy string
	Cost      Cost
	Run       Run
}

// List is rules that are checked and compiled. It is immutable and safe for
// concurrent use; nil is an empty list.
type List struct {
	source string
	rules  []Rule
	conds  []condition
	hash   events.Hash
}

// Compile checks rules and makes a list of them; source is what decisions call
// it, such as `agent "refunds"`. The error joins a [*Fault] for each fault.
func Compile(source string, rules ...Rule) (*List, error) {
	return compileList(source, rules, Rule.compile)
}

func compileList(source string, rules []Rule, compile func(Rule) (condition, []*Fault)) (*List, error) {
	l := &List{source: source, rules: slices.Clone(rules)}
	var errs []error
	if len(rules) > MaxRules {
		errs = append(errs, &Fault{Message: fmt.Sprintf("there are %d rules, at most %d", len(rules), MaxRules)})
	}
	always := 0
	for i, r := range l.rules {
		cond, faults := compile(r)
		for _, f := range faults {
			f.Rule, f.Line = i+1, r.Line
			errs = append(errs, f)
		}
		if len(faults) > 0 {
			continue
		}
		if always > 0 {
			errs = append(errs, &Fault{Rule: i + 1, Line: r.Line, Field: "when", Message: fmt.Sprintf("is never reached: rule %d holds for every call, and the first rule that holds decides; put it last", always)})
			always = -1
		}
		l.conds = append(l.conds, cond)
		if always == 0 && cond.possible(nil) == yes {
			always = i + 1
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if b, err := canonical.Marshal(l.Record().Rules); err != nil {
		return nil, &Fault{Message: fmt.Sprintf("the rules are no text: %v", err)}
	} else {
		l.hash = sha256.Sum256(append([]byte("daybook/rules/1\x00"), b...))
	}
	return l, nil
}

// Must is Compile for rules that are constants of a program; it panics on faults.
func Must(source string, rules ...Rule) *List {
	l, err := Compile(source, rules...)
	if err != nil {
		panic(fmt.Sprintf("policy of %s: %v", source, err))
	}
	return l
}

// compile returns all faults of the rule.
func (r Rule) compile() (c condition, faults []*Fault) {
	add := func(field, format string, args ...any) {
		faults = append(faults, &Fault{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case strings.TrimSpace(r.When) == "":
		add("when", `missing; write an expression such as tool.name == "refund" && args.amount > 100, or true`)
	case len(r.When) > MaxWhen:
		add("when", "has %d bytes, at most %d; write several rules", len(r.When), MaxWhen)
	default:
		var f *Fault
		if c, f = compile(r.When); f != nil {
			faults = append(faults, f)
		}
	}
	switch r.Then {
	case Allow, Ask, Deny:
	default:
		add("then", "want allow, ask or deny, got %q", string(r.Then))
	}
	switch {
	case strings.TrimSpace(r.Because) == "" && r.Then != Allow:
		add("because", "missing; say why, for the model, for whoever is asked and for auditors")
	case len(r.Because) > MaxBecause:
		add("because", "has %d bytes, at most %d", len(r.Because), MaxBecause)
	}
	return c, faults
}

// Fault is one thing wrong with a list of rules.
type Fault struct {
	Rule    int    // from 1; 0 = the list as a whole
	Line    int    // of its file; 0 = of none
	Field   string // when, then or because
	Message string
}

func (f *Fault) Error() string {
	switch {
	case f.Rule == 0:
		return f.Message
	case f.Field == "":
		return fmt.Sprintf("rule %d: %s", f.Rule, f.Message)
	}
	return fmt.Sprintf("rule %d: %s: %s", f.Rule, f.Field, f.Message)
}

// Source is what decisions call the list.
func (l *List) Source() string {
	if l == nil {
		return ""
	}
	return l.source
}

// Rules returns the rules.
func (l *List) Rules() []Rule {
	if l == nil {
		return nil
	}
	return slices.Clone(l.rules)
}

// Hash is over the rules; source and lines don't count.
func (l *List) Hash() events.Hash {
	if l == nil {
		return events.Hash{}
	}
	return l.hash
}

// Record is what a run keeps of the list.
func (l *List) Record() events.PolicyList {
	if l == nil {
		return events.PolicyList{}
	}
	r := events.PolicyList{Source: l.source}
	for _, x := range l.rules {
		r.Rules = append(r.Rules, events.PolicyRule{When: x.When, Then: string(x.Then), Because: strings.TrimSpace(x.Because)})
	}
	return r
}

// Recorded compiles what a run kept. A rule whose condition was redacted denies.
func Recorded(r events.PolicyList) (*List, error) {
	rules := make([]Rule, len(r.Rules))
	for i, x := range r.Rules {
		rules[i] = Rule{When: x.When, Then: Outcome(x.Then), Because: x.Because}
	}
	l, err := compileList(r.Source, rules, Rule.compileRecorded)
	if err != nil {
		return nil, fmt.Errorf("policy of %s as it is recorded: %w", r.Source, err)
	}
	return l, nil
}

// Decision is what a policy says of a call.
type Decision struct {
	Then Outcome // never empty
	// List and Rule say which rule decided, from 1; 0 = none.
	List    string
	Rule    int
	Because string
	// Trouble says why the rule could not be evaluated, which denies; it has no
	// values in it.
	Trouble string
}

// By names the rule that decided, for people; empty if none did.
func (d Decision) By() string {
	if d.Rule == 0 {
		return ""
	}
	return "rule " + strconv.Itoa(d.Rule) + " of " + d.List
}

// Text says why, for the model and for people.
func (d Decision) Text() string {
	switch {
	case d.Trouble != "":
		return fmt.Sprintf("%s could not be evaluated for this call, which denies it: %s", d.By(), d.Trouble)
	case d.Rule == 0:
		return ""
	}
	return fmt.Sprintf("%s (%s)", strings.TrimSpace(d.Because), d.By())
}

// Decide returns what the first rule says that holds, and Allow if none does. It
// never panics.
func (l *List) Decide(f *Facts) Decision { return Policy{l}.Decide(f) }

// Policy is several lists. The zero value allows everything.
type Policy []*List

// Combine puts policies together: what the operator, the agent and the parent of
// a run say, now and when the run was started. A list that is there already is
// left out, so that the same rules give the same policy.
func Combine(ps ...Policy) Policy {
	var all Policy
	for _, p := range ps {
		for _, l := range p {
			if l == nil || len(l.rules) == 0 || slices.ContainsFunc(all, func(o *List) bool { return o.hash == l.hash }) {
				continue
			}
			all = append(all, l)
		}
	}
	return all
}

// Record is what a run keeps of a policy.
func (p Policy) Record() []events.PolicyList {
	var all []events.PolicyList
	for _, l := range p {
		all = append(all, l.Record())
	}
	return all
}

// Decide returns the strictest decision of the lists; of equal ones, the first.
// It never panics.
func (p Policy) Decide(f *Facts) Decision {
	d := Decision{Then: Allow}
	s := state{facts: f, fuel: maxFuel}
	for _, l := range p {
		if l == nil {
			continue
		}
		x := l.decide(&s)
		if d.Rule == 0 || x.Then.strictness() > d.Then.strictness() {
			d = x
		}
		if d.Then == Deny {
			break
		}
	}
	return d
}

func (l *List) decide(s *state) Decision {
	for i := range l.conds {
		holds, trouble := l.conds[i].holds(s)
		r := &l.rules[i]
		switch {
		case trouble != "":
			return Decision{Then: Deny, List: l.source, Rule: i + 1, Because: r.Because, Trouble: trouble}
		case holds:
			return Decision{Then: r.Then, List: l.source, Rule: i + 1, Because: r.Because}
		}
	}
	return Decision{Then: Allow}
}

// Possible returns the decisions that a list can come to about calls of a tool,
// whatever their arguments and the run, in the order of its rules. One without a
// rule says that no rule may hold.
func (l *List) Possible(t Tool) []Decision {
	var all []Decision
	if l != nil {
		for i := range l.conds {
			p := l.conds[i].possible(&t)
			if p == no {
				continue
			}
			all = append(all, Decision{Then: l.rules[i].Then, List: l.source, Rule: i + 1, Because: l.rules[i].Because})
			if p == yes {
				return all
			}
		}
	}
	return append(all, Decision{Then: Allow})
}
