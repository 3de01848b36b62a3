package agents_test

import (
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/tools/policy"
)

const withPolicy = `---
name: clerk
model: m
tools: [lookup_order, refund]
policy:
  - when: tool.name == "refund" && args.amount <= 20
    then: allow
  - when: |
      tool.name == "refund" &&
      tainted
    then: deny
    because: foreign text came in before
  - {when: true, then: deny, because: "nothing else"}
policy_tests:
  - {call: refund, args: {amount: 20}, then: allow, rule: 1}
  - {call: refund, args: {amount: 9007199254740993}, tainted: true, then: deny, rule: 2}
---
Do it.
`

func TestPolicyOfAnAgent(t *testing.T) {
	a, err := agents.Parse("AGENT.md", []byte(withPolicy))
	if err != nil {
		t.Fatal(err)
	}
	rs := a.Policy.Rules()
	if len(rs) != 3 || rs[0].Line != 6 || rs[1].Line != 8 || rs[2].When != "true" || a.Policy.Source() != `agent "clerk"` {
		t.Errorf("rules %+v of %s", rs, a.Policy.Source())
	}
	if len(a.PolicyTests) != 2 || string(a.PolicyTests[1].Facts.Arguments) != `{"amount":9007199254740993}` {
		t.Errorf("tests %+v", a.PolicyTests)
	}
	for _, c := range a.PolicyTests {
		if _, wrong := c.Try(policy.Policy{a.Policy}); wrong != "" {
			t.Errorf("%s: %s", c.Title(), wrong)
		}
	}
	without, err := agents.Parse("AGENT.md", []byte(strings.Replace(withPolicy, "amount <= 20", "amount <= 21", 1)))
	if err != nil || without.Hash() == a.Hash() {
		t.Errorf("another rule, the same agent: %v", err)
	}
	tests, err := agents.Parse("AGENT.md", []byte(strings.Replace(withPolicy, "rule: 1}", "rule: 2}", 1)))
	if err != nil || tests.Hash() != a.Hash() {
		t.Errorf("another test, another agent: %v", err)
	}
}
