package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDecisionsHaveNumbersOfTheirOwn: code and pages name a decision by its number,
// and several people write one at a time.
func TestDecisionsHaveNumbersOfTheirOwn(t *testing.T) {
	files, err := filepath.Glob("../../docs/decisions/*.md")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	numbered := regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	title := regexp.MustCompile(`^# 0*(\d+)[.:]? `)
	seen := map[string]string{}
	for _, f := range files {
		name := filepath.Base(f)
		m := numbered.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: want NNNN-words.md", name)
			continue
		}
		if other := seen[m[1]]; other != "" {
			t.Errorf("%s and %s have one number: give the later one the next that is free", other, name)
		}
		seen[m[1]] = name
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := title.FindSubmatch(text); n == nil || pad4(string(n[1])) != m[1] {
			t.Errorf("%s: its title does not begin with its number", name)
		}
	}
}

func pad4(s string) string {
	for len(s) < 4 {
		s = "0" + s
	}
	return s
}
