//go:build unix

package exitcode_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/revise/exitcode"
	"github.com/daybookhq/daybook/tools/command"
)

// A program's exit code is the verdict. grep looks for lines of a text, sort tells
// on standard error which line is out of order.
func TestValidator(t *testing.T) {
	issue := func(s ...string) (is []events.ArtifactIssue) {
		for _, m := range s {
			is = append(is, events.ArtifactIssue{Message: m})
		}
		return is
	}
	tests := []struct {
		name    string
		program string
		args    []string
		value   any
		want    revise.Verdict
	}{
		{"accepted", "grep", []string{"-q", "b"}, "a\nb\n", revise.Verdict{OK: true, Metadata: map[string]int{"exit_code": 0}}},
		{"refused without a word", "grep", []string{"-q", "c"}, "a\nb\n", revise.Verdict{
			Issues: issue("the check ended with exit code 1 and said nothing"), Metadata: map[string]int{"exit_code": 1},
		}},
		{"a value goes in as JSON", "grep", []string{"-q", `"version": 9007199254740993`}, map[string]any{"version": uint64(9007199254740993)}, revise.Verdict{OK: true, Metadata: map[string]int{"exit_code": 0}}},
		{"standard error if nothing else", "sort", []string{"-C", "--no-such-flag"}, "b\na\n", revise.Verdict{Metadata: map[string]int{"exit_code": 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := command.NewCheck(command.Check{Program: tt.program, Args: tt.args})
			if err != nil {
				t.Fatal(err)
			}
			got, err := exitcode.Validator(c)(t.Context(), revise.Context{}, tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if tt.program == "sort" { // its words are the system's
				if len(got.Issues) == 0 || !strings.Contains(got.Issues[0].Message, "sort") {
					t.Errorf("issues %+v, want what it wrote to standard error", got.Issues)
				}
				got.Issues = nil
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("verdict (-want +got):\n%s", d)
			}
		})
	}
}

func TestManyIssuesAreCounted(t *testing.T) {
	c, err := command.NewCheck(command.Check{Program: "grep", Args: []string{"-v", "--", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	// grep accepts: turn the verdict with a program that fails and writes much.
	if v, err := exitcode.Validator(c)(t.Context(), revise.Context{}, strings.Repeat("a\n", 100)); err != nil || !v.OK {
		t.Fatalf("%+v %v", v, err)
	}
	c, err = command.NewCheck(command.Check{Program: "diff", Args: []string{"-", "/dev/null"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := exitcode.Validator(c)(t.Context(), revise.Context{}, strings.Repeat("a\n", 100))
	if err != nil || v.OK || len(v.Issues) != 31 || v.Issues[30].Message != "and 71 more" {
		t.Errorf("%+v %v", v, err)
	}
}
