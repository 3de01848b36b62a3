package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/policy"
)

// The policies of docs/policies.md are read, and come out as their tests say.
func TestPoliciesOfTheDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	files, cases := 0, 0
	for _, block := range strings.Split(string(b), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		text = strings.Replace(text, "policy:\n", "rules:\n", 1)
		f, err := policy.Parse("policies.md", []byte(text))
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		files++
		for _, c := range f.Cases {
			cases++
			if _, wrong := c.Try(policy.Policy{f.List}); wrong != "" {
				t.Errorf("%s: %s", c.Title(), wrong)
			}
		}
		// A case that came out right whatever the rules say would test nothing.
		if len(f.Cases) > 0 {
			wrong := 0
			for _, c := range f.Cases {
				if _, w := c.Try(nil); w != "" {
					wrong++
				}
			}
			if wrong == 0 {
				t.Errorf("the tests of this file need no rules:\n%s", text)
			}
		}
	}
	if files != 6 || cases < 20 {
		t.Errorf("%d files with %d tests", files, cases)
	}
}
