package docs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAuditing does what the page does, and compares what it shows: that each question
// is answered by the command beside it.
func TestAuditing(t *testing.T) {
	page, err := os.ReadFile("auditing.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(string(page))
	script, wanted := scripted(t, all)
	if len(wanted) != 13 {
		t.Errorf("%d answers, want one for each of twelve questions, and two for the sixth", len(wanted))
	}
	out := typed(t, root, script)
	got := outputs(out)
	for i, b := range wanted {
		if !same(b.text, got[i]) {
			t.Errorf("line %d: the page shows\n%s\nand it prints\n%s", b.line, b.text, got[i])
		}
	}
	if t.Failed() {
		t.Logf("all of it:\n%s", out)
	}
}
