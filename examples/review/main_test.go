//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The test program is also the worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "work" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Three workers are killed, and the change is merged once. Started again it is the
// same run, which is over.
func TestReview(t *testing.T) {
	dir := t.TempDir()
	var first string
	for n := range 2 {
		var out bytes.Buffer
		if err := start(t.Context(), []string{"--dir", dir, "--watch", "1s"}, &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		got := out.String()
		at := 0
		for _, want := range []string{
			`the script asks for a call of read_change {"change":"42"}`, "the script asks for a question to the model", `the model says { "approve": true`,
			"review is kept", `the script asks for a call of merge {"change":"42"}`, "needs a person's approval", "approved by ada", "merge begins, under the key",
			"the script asks for a sleep", "error_rate says: 2 of 1,000", `the run is over: finish "merged and kept: fewer errors than before"`,
			"What was done in the repository:\nmerge 42 ",
		} {
			i := strings.Index(got[at:], want)
			if i < 0 {
				t.Fatalf("%s\nwant %q after the first %d bytes", got, want, at)
			}
			at += i
		}
		if kills := strings.Count(got, " killed: "); kills != 3-3*n {
			t.Errorf("%d workers were killed\n%s", kills, got)
		}
		if first == "" {
			first = got
		}
	}
	if strings.Count(first, "another worker takes the run over") < 3 {
		t.Errorf("nobody took over\n%s", first)
	}
	merged, err := os.ReadFile(filepath.Join(dir, "merged.log"))
	if err != nil || strings.Count(string(merged), "\n") != 1 {
		t.Errorf("merged: %q, %v", merged, err)
	}
}
