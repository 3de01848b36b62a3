package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// notReading are commands without -o: what they print is a text, a word about what
// they did, or files.
var notReading = map[string]string{
	"ledgerctl version":          "one line",
	"ledgerctl migrate":          "what was applied",
	"ledgerctl erase":            "what was done",
	"ledgerctl signal":           "what was done",
	"ledgerctl queues limit":     "what was done",
	"ledgerctl queues pause":     "what was done",
	"ledgerctl queues resume":    "what was done",
	"ledgerctl schedules pause":  "what was done",
	"ledgerctl schedules resume": "what was done",
	"ledgerctl schedules delete": "what was done",
	"ledgerctl budgets settle":   "what was done",
	"ledgerctl shared put":       "what was done",
	"ledgerctl shared rm":        "what was done",
	"ledgerctl memory forget":    "what was done",
	"ledgerctl artifacts diff":   "a text",
	"ledgerctl runs prompt":      "a text",
	"ledgerctl man":              "files",
	"ledgerctl export":           "formats of its own",
	"ledgerctl ui":               "a server",
}

// reading are commands that change nothing in the ledger. Every command is either
// here or changes state, so that a new one has to say which.
var reading = strings.Fields(`approvals artifacts/list artifacts/show artifacts/diff budgets calls/list calls/show calls/sources costs doctor export handoffs leakscan indoubt
	memory/list memory/show memory/log prices/list prices/show queues/list queues/acts rehearse runs/list runs/show runs/tail runs/trace runs/dead
	schedules/list schedules/next schedules/acts sessions/list sessions/show shared/list shared/show shared/log stuck tokens/list tools/list tools/used ui verify version why man`)

// commands calls f with every command that does something.
func commands(c *cobra.Command, f func(*cobra.Command)) {
	if c.Runnable() && (!c.HasSubCommands() || c.Annotations[annFormats] != "") && c.Name() != "help" {
		f(c)
	}
	for _, sub := range c.Commands() {
		if sub.Name() != "completion" {
			commands(sub, f)
		}
	}
}

// TestEveryCommandHasWhatAllHave: a command that reads has -o with all formats, --columns
// and --jq, a list also --filter; one that changes state has --dry-run and --yes.
func TestEveryCommandHasWhatAllHave(t *testing.T) {
	root := newApp(nil, io.Discard, io.Discard, time.Now).root()
	seen := 0
	commands(root, func(c *cobra.Command) {
		seen++
		has := func(flags ...string) {
			t.Helper()
			for _, f := range flags {
				if c.Flags().Lookup(f) == nil {
					t.Errorf("%s has no --%s", c.CommandPath(), f)
				}
			}
		}
		if _, ok := notReading[c.CommandPath()]; !ok {
			has("output", "columns", "jq")
			if f := c.Flags().Lookup("output"); f != nil && f.Usage != strings.Join(allFormats, ", ") {
				t.Errorf("%s -o has %s", c.CommandPath(), f.Usage)
			}
		}
		if own := strings.Fields(c.Annotations[annFormats]); slices.Contains(own, formatCSV) {
			has("filter")
			if c.Annotations[annFields] == "" {
				t.Errorf("%s lists rows: call listFlags instead of outputFlag, so that its help names their fields", c.CommandPath())
			}
		}
		name := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "ledgerctl "), " ", "/")
		reads, changes := slices.Contains(reading, name), c.Annotations[annChanges] != ""
		switch {
		case reads && changes:
			t.Errorf("%s changes state and is among those that read", c.CommandPath())
		case changes:
			has("dry-run", "yes")
		case !reads:
			t.Errorf("%s: call changes if it changes anything in the ledger; else add it to those that read, in this test", c.CommandPath())
		}
	})
	if seen < 60 {
		t.Errorf("%d commands were looked at", seen)
	}
}

// formatted runs one row through a list in a format.
func formatted(t *testing.T, v any, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	a := newApp(nil, &out, io.Discard, time.Now)
	c := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
	a.outputFlag(c, showFormats...)
	c.RunE = func(*cobra.Command, []string) error { return a.json(v) }
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestNothingIsLostInAFormat: the order of fields and all digits are those of the JSON.
func TestNothingIsLostInAFormat(t *testing.T) {
	v := json.RawMessage(`{"zebra":9007199254740993,"apple":"0.000000000001","huge":123456789012345678901234567890,"list":[1.10,true,null],"text":"no","when":"2026-01-15T12:00:00Z","lines":"a\nb","evil":"\u202e\u001b[2J"}`)
	tests := []struct{ format, want string }{
		{"yaml", `zebra: 9007199254740993
apple: "0.000000000001"
huge: 123456789012345678901234567890
list:
    - 1.10
    - true
    - null
text: "no"
when: "2026-01-15T12:00:00Z"
lines: |-
    a
    b
evil: "\u202e\e[2J"
`},
		{"jsonl", string(v) + "\n"},
		{"csv", "zebra,apple,huge,list,text,when,lines,evil\n" +
			`9007199254740993,0.000000000001,123456789012345678901234567890,"[1.10,true,null]",no,2026-01-15T12:00:00Z,"a` + "\n" + `b",` + "\u202e\x1b[2J\n"},
	}
	for _, tt := range tests {
		t.Run(tt.format, func(t *testing.T) {
			if got, err := formatted(t, v, "-o", tt.format); err != nil || got != tt.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, got, tt.want)
			}
		})
	}
}

func TestJSONOnATerminalHidesNothing(t *testing.T) {
	var out strings.Builder
	a := newApp(nil, &out, io.Discard, time.Now)
	a.term.width = 80
	in := "ü 日 \u202e \u009b2J \U000e0041"
	if err := a.json(map[string]string{"a": in}); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back["a"] != in {
		t.Errorf("reads as %q, %v", back["a"], err)
	}
	if strings.ContainsAny(out.String(), "\u202e\u009b\U000e0041") || !strings.Contains(out.String(), "ü 日") {
		t.Errorf("shows %q", out.String())
	}
}
