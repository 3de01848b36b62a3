package access_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatsAreListed: docs/access.md names the test of each threat, and each
// test that it names is there.
func TestThreatsAreListed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../walk_test.go")
	var code strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 15 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, m := range named {
		if !strings.Contains(code.String(), "func "+m[1]+"(t *testing.T)") {
			t.Errorf("the page names %s, which is not here", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`func (TestThreat[A-Z][A-Za-z]+)\(`).FindAllStringSubmatch(code.String(), -1) {
		if m[1] != "TestThreatsAreListed" && !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("%s is not on the page", m[1])
		}
	}
}
