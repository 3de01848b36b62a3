package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/policy"
)

// What a model writes into arguments cannot make a rule undecided, slow, or true
// where it is false: it is denied, and soon.
func TestArgumentsThatAttackARule(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("1,", 50_000), ",")
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for _, tt := range []struct{ name, when, args, want string }{
		{"a list against itself", `any(args.l, any(args.l, # == 2))`, `{"l":[` + many + `]}`, "too much"},
		{"a list in itself", `none(args.l, 3 in args.l)`, `{"l":[` + many + `]}`, "too much"},
		{"what is filtered is filtered", `len(filter(map(args.l, args.l), len(filter(#, # > 1)) > 0)) > 0`, `{"l":[` + many + `]}`, "too much"},
		{"a text over and over", `any(args.l, args.s contains "b")`, `{"l":[` + many + `],"s":"` + strings.Repeat("a", 500_000) + `"}`, "too much"},
		{"a pattern over and over", `any(args.l, args.s matches "(a*)*b")`, `{"l":[` + many + `],"s":"` + strings.Repeat("a", 300_000) + `"}`, "too much"},
		{"a text that grows", `any(args.l, {let x = args.s + args.s; let y = x + x; y == "b"})`, `{"l":[` + many + `],"s":"` + strings.Repeat("a", 100_000) + `"}`, "too much"},
		{"a number that grows", `let a = args.n * args.n; let b = a * a; let c = b * b; let d = c * c; let e = d * d; e > 1`, `{"n":1e300}`, "too big"},
		{"a number out of range", `args.n > 1`, `{"n":1e400000}`, "too big"},
		{"a nested one", `args.a == args.b`, `{"a":` + deep + `,"b":` + deep + `}`, ""},
		{"a name twice", `args.n == 2`, `{"n":1,"n":2}`, ""}, // canonical arguments have none; the last one is what tools would read
		{"no object", `args.n > 1`, `[1]`, "no JSON object"},
		{"nothing at all", `args.n > 1`, `{`, "no JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := policy.Compile("x", policy.Rule{When: tt.when, Then: policy.Deny, Because: "so"})
			if err != nil {
				t.Fatal(err)
			}
			d := l.Decide(facts(tt.args))
			if d.Then != policy.Deny || !strings.Contains(d.Trouble, tt.want) || (tt.want == "") != (d.Trouble == "") {
				t.Errorf("%s %q, want %q", d.Then, d.Trouble, tt.want)
			}
			if strings.Contains(d.Text(), "aaa") || strings.Contains(d.Text(), "1,1") {
				t.Errorf("the text has values of arguments: %.200s", d.Text())
			}
		})
	}
}

// twenty simple rules, of which the last decides.
func twenty() *policy.List {
	var rs []policy.Rule
	for i := range 19 {
		rs = append(rs, policy.Rule{When: fmt.Sprintf(`tool.name == "tool_%d" && args.amount > %d`, i, i*100), Then: policy.Ask, Because: "large"})
	}
	return policy.Must("bench", append(rs, policy.Rule{When: `tool.name == "refund" && args.amount > 100`, Then: policy.Ask, Because: "large"})...)
}

func BenchmarkDecide(b *testing.B) {
	f := facts(`{"amount":250,"charge":"ch_123","reason":"paid twice"}`)
	for name, l := range map[string]*policy.List{
		"20 rules": twenty(),
		"1 rule":   policy.Must("x", policy.Rule{When: `tool.name == "refund" && args.amount > 100`, Then: policy.Ask, Because: "large"}),
		"a list":   policy.Must("x", policy.Rule{When: `any(["a", "b", "refund"], # == tool.name) && args.amount in 1..1000`, Then: policy.Ask, Because: "large"}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := l.Decide(f); d.Then != policy.Ask {
					b.Fatal(d)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	l := twenty().Record()
	for b.Loop() {
		if _, err := policy.Recorded(l); err != nil {
			b.Fatal(err)
		}
	}
}
