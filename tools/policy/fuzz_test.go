package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/expr-lang/expr"

	"github.com/daybookhq/daybook/tools/policy"
)

// Whatever is written as a rule is refused or decides: it never panics, and its
// decision about the same call is always the same.
func FuzzRule(f *testing.F) {
	for _, s := range []string{
		`tool.name == "refund" && args.amount > 100`, `any(args.l, any(args.l, # == 1))`, `let x = args; x.a.b[0] ?? 1 == 1`,
		`args.s matches "^a+$" && len(args.s) in 1..3`, `filter(map(args.l, # * #), # > 1e300)`, `args?.a?.b?.c == nil`, `(tainted ? cost.left : cost.spent) / 3 > 0.1`,
		`sum(args.l, #.n) % 3 == 0 or none(values(args), # == nil)`, "\"\\x00\" in args", `-args.n..args.n`, `not not tainted`,
	} {
		f.Add(s, `{"l":[1,2,{"n":3}],"s":"aa","n":1e308,"a":{"b":[0]},"amount":9007199254740993}`)
	}
	f.Add(`args.a > 1`, `{"a":1e400}`)
	f.Add(`args.a == args.b`, strings.Repeat(`{"a":`, 300)+`1`+strings.Repeat(`}`, 300))
	f.Fuzz(func(t *testing.T, when, args string) {
		l, err := policy.Compile("fuzz", policy.Rule{When: when, Then: policy.Ask, Because: "x"}, policy.Rule{When: "tainted", Then: policy.Deny, Because: "y"})
		if err != nil {
			return
		}
		d := l.Decide(facts(args))
		switch d.Then {
		case policy.Ask, policy.Deny: // the second rule holds always
		default:
			t.Errorf("%q of %q: %+v", when, args, d)
		}
		if again := l.Decide(facts(args)); again != d {
			t.Errorf("%q of %q: %+v, then %+v", when, args, d, again)
		}
		if strings.Contains(d.Trouble, "broke down") {
			t.Errorf("%q of %q panicked", when, args)
		}
		// What a tool alone excludes is excluded whatever the arguments are.
		possible := false
		for _, p := range l.Possible(refund) {
			possible = possible || p.Rule == d.Rule
		}
		if !possible {
			t.Errorf("%q of %q: %+v is none of %+v", when, args, d, l.Possible(refund))
		}
		r, err := policy.Recorded(l.Record())
		if err != nil || r.Decide(facts(args)) != d {
			t.Errorf("%q recorded: %v", when, err)
		}
	})
}

// Where both evaluate an expression, they agree: the numbers here are ones that
// the library does not round.
func TestAsTheLibrary(t *testing.T) {
	atoms := []string{`1`, `2`, `0`, `-1`, `0.5`, `"a"`, `"ab"`, `true`, `false`, `nil`, `[1, 2]`, `["a"]`, `args.n`, `args.s`, `args.l`, `args.none`, `args.o`, `args.b`}
	ops := []string{"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "and", "or", "in", "contains", "startsWith", "endsWith", "??"}
	var whens []string
	for _, a := range atoms {
		whens = append(whens, "not ("+a+")", "any("+a+", # == 1)", "all("+a+", # > 0)", "len("+a+") == 2", "one("+a+", # == 1)", "none("+a+", # == 1)",
			"count("+a+", # > 1) == 1", "(filter("+a+", # > 1)) == [2]", "("+a+").x == 1", "("+a+")?.x == nil", "("+a+") ? true : false")
		for _, b := range atoms {
			for _, op := range ops {
				whens = append(whens, fmt.Sprintf("(%s %s %s) == true", a, op, b), fmt.Sprintf("(%s %s %s) == 1", a, op, b))
			}
		}
	}
	var args map[string]any
	raw := `{"n":2,"s":"ab","l":[1,2],"o":{"x":1},"b":true}`
	if err := json.Unmarshal([]byte(raw), &args); err != nil {
		t.Fatal(err)
	}
	type environment struct {
		Args map[string]any `expr:"args"`
	}
	compared := 0
	for _, w := range whens {
		l, err := policy.Compile("x", policy.Rule{When: w, Then: policy.Ask, Because: "x"})
		if err != nil {
			continue
		}
		p, err := expr.Compile(w, expr.Env(environment{}), expr.AsBool())
		if err != nil {
			t.Errorf("%s: the library refuses it: %v", w, err)
			continue
		}
		want, err := expr.Run(p, environment{args})
		d := l.Decide(facts(raw))
		switch {
		case err != nil && d.Trouble == "" && !strings.Contains(w, ` in ["a"]`): // which is false of a number here
			t.Errorf("%s: %s, but the library says %v", w, d.Then, err)
		case err == nil && d.Trouble != "":
			// The library takes what is nil, and texts for lists, in places where we do not.
			if !strings.Contains(d.Trouble, "want ") {
				t.Errorf("%s: %s, but the library says %v", w, d.Trouble, want)
			}
		case err == nil && (d.Then == policy.Ask) != want:
			t.Errorf("%s: %s %s, but the library says %v", w, d.Then, d.Trouble, want)
		}
		compared++
	}
	if compared < 2000 {
		t.Errorf("only %d of %d were compared", compared, len(whens))
	}
}
