package agents_test

import (
	"os"
	"testing"

	"github.com/daybookhq/daybook/agents"
)

// Whatever is in a file: no panic, and an agent that is read has a hash.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"good/refunds/AGENT.md", "bad/several_faults.md", "bad/wrong_types.md", "bad/policy.md"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("---\na: &x {b: *x}\n<<: *x\n? [k]\n: v\n---\nP"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := agents.Parse("x", b)
		if (a == nil) != (err != nil) {
			t.Fatalf("Parse = %v, %v", a, err)
		}
		if a != nil {
			_ = a.Hash()
		}
	})
}
