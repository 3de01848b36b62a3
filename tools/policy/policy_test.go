package policy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools/policy"
)

func usd(s string) events.PicoUSD {
	var p events.PicoUSD
	if err := p.UnmarshalText([]byte(s)); err != nil {
		panic(err)
	}
	return p
}

var refund = policy.Of("refund", "destructive", "keyed", "own", false)

// facts are those of a call of refund.
func facts(args string) *policy.Facts {
	limit := usd("0.50")
	return &policy.Facts{
		Tool: refund, Arguments: json.RawMessage(args), Tainted: true, TaintedBy: "fetch_page",
		Cost: policy.Cost{Spent: usd("0.125"), Unpriced: 1, Limit: &limit},
		Run:  policy.Run{Agent: "refunds", Owner: "ann", Tenant: "acme", Queue: "default", Turn: 3, Depth: 1},
	}
}

const trouble = "could not be evaluated"

func TestWhen(t *testing.T) {
	for _, tt := range []struct{ when, args, want string }{
		// names
		{`tool.name == "refund" && tool.effect == "destructive" && tool.recovery == "keyed" && tool.trust == "own" && !tool.pinned`, `{}`, "yes"},
		{`run.agent == "refunds" and run.owner == "ann" and run.tenant == "acme" and run.queue == "default" and run.turn == 3 and run.depth == 1`, `{}`, "yes"},
		{`tainted && tainted_by == "fetch_page"`, `{}`, "yes"},
		{`cost.spent == 0.125 && cost.limit == 0.5 && cost.left == 0.375 && cost.unpriced == 1`, `{}`, "yes"},
		{`cost.spent > 0.125`, `{}`, "no"},
		{`tool.name in ["other", "refund"]`, `{}`, "yes"},
		{`tool.name not in ["other"]`, `{}`, "yes"},
		// numbers are exact
		{`args.n == 9007199254740993`, `{"n":9007199254740993}`, "yes"},
		{`args.n == 9007199254740992`, `{"n":9007199254740993}`, "no"},
		{`args.n > 9223372036854775807`, `{"n":9223372036854775808}`, "yes"},
		{`args.n > 100`, `{"n":123456789012345678901234567890}`, "yes"},
		{`args.n * 100 > 1000`, `{"n":4611686018427387904}`, "yes"}, // an int64 would wrap to 0
		{`args.n + args.n > 0`, `{"n":9223372036854775807}`, "yes"},
		{`args.n == 0.3`, `{"n":0.3}`, "yes"},
		{`args.a + args.b == 0.3`, `{"a":0.1,"b":0.2}`, "yes"},
		{`args.n == 1`, `{"n":1.0}`, "yes"},
		{`args.n > 1e300`, `{"n":1e400}`, "yes"}, // the dispatcher refuses it before
		{`args.n > 1`, `{"n":1e100000000}`, trouble},
		{`args.n / 0 > 1`, `{"n":1}`, trouble},
		{`args.n / 4 == 0.25 && args.n % 2 == 1 && -args.n == -1 && args.n - 2 == -1`, `{"n":1}`, "yes"},
		{`args.n % args.m == 0`, `{"n":1,"m":0.5}`, trouble},
		{`args.n in 1..10`, `{"n":10}`, "yes"},
		{`args.n in 1..10`, `{"n":2.5}`, "no"},
		{`args.n not in 1..10`, `{"n":11}`, "yes"},
		{`1 < args.n < 3`, `{"n":2}`, "yes"},
		// nothing there
		{`args.amount > 100`, `{}`, trouble},
		{`args.amount != nil && args.amount > 100`, `{}`, "no"},
		{`(args.amount ?? 0) > 100`, `{}`, "no"},
		{`args.a.b == 1`, `{}`, trouble},
		{`args.a?.b == nil`, `{}`, "yes"},
		{`(args.a?.b.c ?? 1) == 1`, `{}`, "yes"},
		{`args?.a.b == 1`, `{"a":{"b":1}}`, "yes"},
		{`args["a b"][0] == 1 && args["a b"][-1] == 2`, `{"a b":[1,2]}`, "yes"},
		{`args.l[2] == 1`, `{"l":[1,2]}`, trouble},
		{`"amount" in args`, `{"amount":null}`, "yes"},
		{`args.flag`, `{"flag":true}`, "yes"},
		{`args.flag`, `{"flag":"true"}`, trouble},
		{`!args.flag`, `{}`, trouble},
		// kinds
		{`args.n == "100"`, `{"n":100}`, "no"},
		{`args.n > 100`, `{"n":"200"}`, trouble},
		{`args.s > "a"`, `{"s":"b"}`, "yes"},
		{`args.s > 1`, `{"s":"b"}`, trouble},
		{`args.x == args.y`, `{"x":{"a":[1,{"b":null}]},"y":{"a":[1.0,{"b":null}]}}`, "yes"},
		{`args.x == args.y`, `{"x":{"a":1},"y":{"b":1}}`, "no"},
		{`args.x == nil || args.x == true`, `{"x":[1]}`, "no"},
		// texts
		{`args.to endsWith "@example.com" && args.to startsWith "ann" && args.to contains "@" && args.to matches "^[a-z]+@"`, `{"to":"ann@example.com"}`, "yes"},
		{`args.to not endsWith "@example.com"`, `{"to":"x@example.org"}`, "yes"},
		{`args.to endsWith "x"`, `{"to":1}`, trouble},
		{`lower(trim(args.to)) == "ann" && upper(args.to) contains "ANN" && len(args.to) == 5`, `{"to":" Ann "}`, "yes"},
		{`args.a + "/" + args.b == "x/y"`, `{"a":"x","b":"y"}`, "yes"},
		{`args.a + "/" == "x/"`, `{"a":1}`, trouble},
		{`hasPrefix(args.a, "x") && hasSuffix(args.a, "z") && (args.a | lower()) == "xyz"`, `{"a":"xyz"}`, "yes"},
		// lists
		{`any(args.l, # > 2) && all(args.l, # > 0) && none(args.l, # > 3) && one(args.l, # == 2) && count(args.l, # < 3) == 2`, `{"l":[1,2,3]}`, "yes"},
		{`any(args.l, .n == 2) && find(args.l, .n == 2).s == "b" && sum(args.l, .n) == 3 && map(args.l, .s) == ["a", "b"]`, `{"l":[{"n":1,"s":"a"},{"n":2,"s":"b"}]}`, "yes"},
		{`any(args.l, any(#.t, # == "x"))`, `{"l":[{"t":["y"]},{"t":["x"]}]}`, "yes"},
		{`len(filter(args.l, # > 1)) == 2 && sum(args.l) == 6 && max(args.l) == 3 && min(args.l) == 1 && first(args.l) == 1 && last(args.l) == 3`, `{"l":[1,2,3]}`, "yes"},
		{`keys(args) == ["a", "b"] && values(args) == [1, 2] && max(1, 2) == 2 && abs(-2) == 2`, `{"b":2,"a":1}`, "yes"},
		{`all(args.l, # > 1)`, `{"l":[]}`, "yes"},
		{`any(args.l, # > 1)`, `{"l":"x"}`, trouble},
		{`any(args.l, #)`, `{"l":[1]}`, trouble},
		{`3 in args.l`, `{"l":[1,2,3]}`, "yes"},
		{`3 in args.l`, `{}`, trouble},
		{`let x = args.n * 2; let y = x + 1; y == 5`, `{"n":2}`, "yes"},
		{`any(args.l, {let x = #; x > 1})`, `{"l":[1,2]}`, "yes"},
		{`args.n > 1 ? tainted : false`, `{"n":2}`, "yes"},
		{`if args.n > 1 { true } else { false }`, `{"n":1}`, "no"},
		// the first side decides, if it does
		{`tainted || args.x > 1`, `{}`, "yes"},
		{`!tainted && args.x > 1`, `{}`, "no"},
	} {
		l, err := policy.Compile("test", policy.Rule{When: tt.when, Then: policy.Ask, Because: "so"})
		if err != nil {
			t.Errorf("%s: %v", tt.when, err)
			continue
		}
		d := l.Decide(facts(tt.args))
		got := map[policy.Outcome]string{policy.Ask: "yes", policy.Allow: "no"}[d.Then]
		if d.Trouble != "" && d.Then == policy.Deny {
			got = trouble
		}
		if got != tt.want {
			t.Errorf("%s of %s: %s (%s), want %s", tt.when, tt.args, got, d.Text(), tt.want)
		}
	}
}

func TestFaults(t *testing.T) {
	for when, want := range map[string]string{
		``:                                "missing",
		`tool.nam == "x"`:                 `did you mean "name"`,
		`tool.price > 1`:                  `tool has no "price"; it has name, effect`,
		`tols.name == "x"`:                `did you mean "tool"`,
		`amount > 1`:                      `there is no "amount"; there are args`,
		`tool.effect == "writes"`:         `is never "writes"; it is one of readonly, idempotent, destructive`,
		`tool.trust in ["owned"]`:         `is never "owned"`,
		`tool == "x"`:                     `tool has fields`,
		`tool[args.x] == "x"`:             `by its name`,
		`tool.name > 3`:                   `mismatched types`,
		`args.n +`:                        `unexpected token EOF`,
		`cost.spent`:                      `want true or false, got float64`,
		`now() > 1`:                       `there is no clock`,
		`date("2026-01-01") > 1`:          `there is no clock`,
		`lenn(args.x) > 1`:                `did you mean "len"`,
		`toJSON(args) == ""`:              `there is no function "toJSON"`,
		`reduce(args.l, #acc + #, 0) > 1`: "there is no function",
		`any(args.l, #index > 1)`:         "#index is not there",
		`args.x[1:2] == 1`:                "parts of lists",
		`{"a": 1} == args`:                "objects",
		`1..100000000 == args.x`:          "a range is only there behind in",
		`args.n ** 2 > 1`:                 "powers",
		`args.a matches args.b`:           "in quotes",
		`args.a matches "("`:              "missing closing )",
		`args.f()`:                        "no functions of their own",
		`$env.tool.name == "x"`:           `there is no "$env"`,
		`count(args.l) > 1`:               "count wants what to count",
		`len(args.a, args.b) > 1`:         "len",
		`args.n > 99999999999999999999`:   "invalid integer",
		strings.Repeat("(", 800) + "true" + strings.Repeat(")", 800): "is",
		strings.Repeat("!", 300) + "true":                            "nested too deeply",
		strings.Repeat("!", 1500) + "true":                           "maximum allowed nodes",
		strings.Repeat("true && ", 240) + "true":                     "",
		strings.Repeat("x", 3000):                                    "at most 2000",
		"tool.name == 'x' &&\n  tool.nam == 'y'":                     "line 2 column 8",
	} {
		_, err := policy.Compile("test", policy.Rule{When: when, Then: policy.Deny, Because: "so"})
		if want == "" {
			continue // it is enough that it comes back
		}
		if want == "is" {
			if err != nil {
				t.Errorf("brackets: %v", err)
			}
			continue
		}
		var f *policy.Fault
		if err == nil || !errors.As(err, &f) || f.Field != "when" || f.Rule != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", when, err, want)
		}
	}
	for _, r := range []policy.Rule{{When: "true", Then: "forbid", Because: "x"}, {When: "true", Then: policy.Ask}, {When: "true", Then: policy.Deny, Because: " "}} {
		if _, err := policy.Compile("test", r); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

// The first rule that holds decides; one that cannot be evaluated denies and
// does not fall through to what comes after it.
func TestFirstRuleDecides(t *testing.T) {
	l := policy.Must(`agent "a"`,
		policy.Rule{When: `args.amount <= 10`, Then: policy.Allow},
		policy.Rule{When: `args.amount <= 100`, Then: policy.Ask, Because: "over 10"},
		policy.Rule{When: `true`, Then: policy.Deny, Because: "over 100"},
	)
	for args, want := range map[string]policy.Decision{
		`{"amount":10}`:  {Then: policy.Allow, List: `agent "a"`, Rule: 1},
		`{"amount":11}`:  {Then: policy.Ask, List: `agent "a"`, Rule: 2, Because: "over 10"},
		`{"amount":101}`: {Then: policy.Deny, List: `agent "a"`, Rule: 3, Because: "over 100"},
		`{}`:             {Then: policy.Deny, List: `agent "a"`, Rule: 1, Trouble: "args.amount: want a number, got nothing"},
	} {
		if got := l.Decide(facts(args)); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
	if got := l.Decide(facts(`{"amount":11}`)).Text(); got != `over 10 (rule 2 of agent "a")` {
		t.Errorf("text %q", got)
	}
	if _, err := policy.Compile("x", policy.Rule{When: "true", Then: policy.Allow}, policy.Rule{When: "tainted", Then: policy.Deny, Because: "x"}); err == nil ||
		!strings.Contains(err.Error(), "never reached: rule 1 holds for every call") {
		t.Errorf("a rule behind true: %v", err)
	}
	if _, err := policy.Compile("x", policy.Rule{When: `tool.pinned || !tool.pinned || 1 == 1`, Then: policy.Allow}, policy.Rule{When: "tainted", Then: policy.Deny, Because: "x"}); err == nil {
		t.Error("a rule behind one that always holds is accepted")
	}
}

// Of several lists the strictest decision counts, in whatever order they are.
func TestStrictestListDecides(t *testing.T) {
	rule := func(source string, then policy.Outcome) *policy.List {
		return policy.Must(source, policy.Rule{When: "true", Then: then, Because: source})
	}
	allow, ask, deny := rule("one", policy.Allow), rule("two", policy.Ask), rule("three", policy.Deny)
	broken := policy.Must("four", policy.Rule{When: "args.x > 1", Then: policy.Allow})
	for _, tt := range []struct {
		p    policy.Policy
		want policy.Outcome
		by   string
	}{
		{nil, policy.Allow, ""},
		{policy.Policy{nil}, policy.Allow, ""},
		{policy.Policy{allow, ask}, policy.Ask, "rule 1 of two"},
		{policy.Policy{ask, allow}, policy.Ask, "rule 1 of two"},
		{policy.Policy{ask, deny, allow}, policy.Deny, "rule 1 of three"},
		{policy.Policy{allow, broken, ask}, policy.Deny, "rule 1 of four"},
		{policy.Policy{allow}, policy.Allow, "rule 1 of one"},
	} {
		if d := tt.p.Decide(facts(`{}`)); d.Then != tt.want || d.By() != tt.by {
			t.Errorf("%+v, want %s by %q", d, tt.want, tt.by)
		}
	}
	if got := policy.Combine(policy.Policy{allow, nil, ask}, policy.Policy{rule("one", policy.Allow), deny}); len(got) != 3 {
		t.Errorf("combined %d lists, want 3", len(got))
	}
	if policy.Stricter(policy.Deny, policy.Allow) != policy.Deny || policy.Stricter("", policy.Ask) != policy.Ask || policy.Stricter(policy.Ask, "bogus") != "bogus" {
		t.Error("stricter")
	}
}

// What is recorded decides as what it was made of, and its hash says so.
func TestRecorded(t *testing.T) {
	l := policy.Must("x", policy.Rule{When: "args.n > 1", Then: policy.Deny, Because: "n", Line: 7})
	raw, err := json.Marshal(policy.Policy{l}.Record())
	if err != nil {
		t.Fatal(err)
	}
	var rs []events.PolicyList
	if err := json.Unmarshal(raw, &rs); err != nil {
		t.Fatal(err)
	}
	got, err := policy.Recorded(rs[0])
	if err != nil || got.Hash() != l.Hash() || got.Decide(facts(`{"n":2}`)).Then != policy.Deny {
		t.Errorf("%v, %v", got, err)
	}
	if other := policy.Must("x", policy.Rule{When: "args.n > 2", Then: policy.Deny, Because: "n"}); other.Hash() == l.Hash() {
		t.Error("another rule has the same hash")
	}
	if _, err := policy.Recorded(events.PolicyList{Source: "x", Rules: []events.PolicyRule{{When: "later(args)", Then: "deny", Because: "x"}}}); err == nil {
		t.Error("a rule of a later version is read")
	}
}

// An ask about a call that nobody can be asked about, and a rule about a tool
// that is none, are found before a run.
func TestCheck(t *testing.T) {
	ts := []policy.Tool{refund, policy.Of("check_refund", "readonly", "", "own", false), policy.Of("tag", "idempotent", "", "own", false)}
	for _, tt := range []struct {
		rules []policy.Rule
		want  string
	}{
		{[]policy.Rule{{When: `tool.name == "refund" && args.amount > 5`, Then: policy.Ask, Because: "x"}}, ""},
		{[]policy.Rule{{When: `tool.effect == "destructive" && tainted`, Then: policy.Ask, Because: "x"}}, ""},
		{[]policy.Rule{{When: `tool.effect == "readonly"`, Then: policy.Allow}, {When: `tool.name == "tag"`, Then: policy.Deny, Because: "x"}, {When: "true", Then: policy.Ask, Because: "x"}}, ""},
		{[]policy.Rule{{When: `tainted`, Then: policy.Ask, Because: "x"}}, "ask may hold for calls of check_refund (readonly), tag (idempotent)"},
		{[]policy.Rule{{When: `args.amount > 5 && tool.name != "tag"`, Then: policy.Ask, Because: "x"}}, "calls of check_refund (readonly):"},
		{[]policy.Rule{{When: `tool.name == "refnd"`, Then: policy.Deny, Because: "x"}}, `did you mean "refund"`},
		{[]policy.Rule{{When: `tool.name in ["refund", "wire"]`, Then: policy.Deny, Because: "x"}}, `there is no tool "wire", so this guards nothing; there are check_refund, refund, tag`},
		{[]policy.Rule{{When: "tool.name == \"ref\u0443nd\"", Then: policy.Deny, Because: "x"}}, `so this guards nothing`}, // a Cyrillic u
	} {
		l, names := policy.Must("x", tt.rules...), []string{"refund", "check_refund", "tag"}
		errs := append(l.CheckNames(names), l.CheckAsks(ts)...)
		got := errors.Join(errs...)
		if (got == nil) != (tt.want == "") || got != nil && !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.rules, got, tt.want)
		}
	}
}

func TestPossible(t *testing.T) {
	l := policy.Must("x",
		policy.Rule{When: `tool.effect == "readonly"`, Then: policy.Allow},
		policy.Rule{When: `tainted && args.n > 1`, Then: policy.Ask, Because: "x"},
		policy.Rule{When: `tool.name == "refund"`, Then: policy.Deny, Because: "x"},
	)
	said := func(ds []policy.Decision) (s string) {
		for _, d := range ds {
			s += string(d.Then) + " " + d.By() + "; "
		}
		return s
	}
	for tool, want := range map[policy.Tool]string{
		refund: "ask rule 2 of x; deny rule 3 of x; ",
		policy.Of("read", "readonly", "", "", false):    "allow rule 1 of x; ",
		policy.Of("mail", "destructive", "", "", false): "ask rule 2 of x; allow ; ",
	} {
		if got := said(l.Possible(tool)); got != want {
			t.Errorf("%s: %s, want %s", tool.Name, got, want)
		}
	}
}
