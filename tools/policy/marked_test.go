package policy_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools/policy"
)

// A rule that would be another one in the record is a fault, whose text does not
// show what looked like a secret.
func TestRulesThatTheRecordWouldChange(t *testing.T) {
	red := redact.New(redact.Config{})
	if err := red.Register("shop", "zebra-quartz-81"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ when, because, field string }{
		{`args.key == "rk_live_51H8eu7shopkeeperAbCdEf"`, "x", "when"},
		{`args.key == "zebra-quartz-81"`, "x", "when"},
		{`args.key == "[REDACTED:shop:0123abcd]"`, "x", "when"},
		{`tool.name == "pay"`, "ask for zebra-quartz-81", "because"},
		{`tool.name == "pay" && args.key contains "[REDACTED:"`, "no keys", ""},
		{`args.password != nil && args.token == "" && tool.name == "login"`, "nobody logs in with a password", ""},
		{`args.to startsWith "secret://mail" && args.id == "ord_2048"`, "x", ""},
	} {
		l := policy.Must("x", policy.Rule{When: "tainted", Then: policy.Deny, Because: "x"}, policy.Rule{When: tt.when, Then: policy.Deny, Because: tt.because, Line: 7})
		errs := l.CheckRedaction(red)
		var f *policy.Fault
		switch {
		case tt.field == "":
			if len(errs) > 0 {
				t.Errorf("%s: %v", tt.when, errs)
			}
		case len(errs) != 1 || !errors.As(errs[0], &f) || f.Rule != 2 || f.Line != 7 || f.Field != tt.field:
			t.Errorf("%s, %s: %v", tt.when, tt.because, errs)
		case strings.Contains(f.Error(), "zebra") || strings.Contains(f.Error(), "rk_live"):
			t.Errorf("shows it: %v", f)
		}
	}
}

// The policies of docs/policies.md are recorded as they are.
func TestPoliciesOfTheDocsAreRecordedAsTheyAre(t *testing.T) {
	b, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(b), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		f, err := policy.Parse("policies.md", []byte(strings.Replace(text, "policy:\n", "rules:\n", 1)))
		if err != nil {
			t.Fatal(err)
		}
		if errs := f.List.CheckRedaction(redact.New(redact.Config{})); len(errs) > 0 {
			t.Errorf("%v in\n%s", errs, text)
		}
	}
}

// A recorded rule that was redacted denies whatever comes to it, also where what is
// left of it is no expression, or would allow.
func TestRedactedRulesDeny(t *testing.T) {
	const mark = "[REDACTED:shop:0123abcd]"
	for _, when := range []string{
		`args.key == "` + mark + `"`, `args.key == ` + mark, `args.key != "` + mark + `"`, `"` + strings.Repeat("x", policy.MaxWhen) + mark + `"`,
	} {
		for _, then := range []policy.Outcome{policy.Allow, policy.Ask, policy.Deny} {
			l, err := policy.Recorded(events.PolicyList{Source: "x", Rules: []events.PolicyRule{
				{When: `tool.name == "look"`, Then: "allow"},
				{When: when, Then: string(then), Because: mark + strings.Repeat("x", policy.MaxBecause)},
				{When: "true", Then: "allow"},
			}})
			if err != nil {
				t.Errorf("%.40s: %v", when, err)
				continue
			}
			call := func(tool string) policy.Decision {
				return l.Decide(&policy.Facts{Tool: policy.Of(tool, "readonly", "", "own", false), Arguments: []byte(`{"key":"a"}`)})
			}
			if d := call("pay"); d.Then != policy.Deny || d.Rule != 2 || !strings.Contains(d.Text(), "redacted in the record") {
				t.Errorf("%.40s then %s: %+v", when, then, d)
			}
			if d := call("look"); d.Then != policy.Allow || d.Rule != 1 {
				t.Errorf("%.40s: an earlier rule does not decide: %+v", when, d)
			}
			if got := l.Record().Rules[1].When; got != when {
				t.Errorf("%.40s is recorded as %.40s", when, got)
			}
		}
	}
}
