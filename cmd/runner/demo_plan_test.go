package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/examples/refunds/payments"
)

func TestKillPlan(t *testing.T) {
	for seed := range uint64(200) {
		for kills := range 13 {
			plan := killPlan(seed, kills)
			if d := cmp.Diff(plan, killPlan(seed, kills)); d != "" {
				t.Fatalf("seed %d: two plans:\n%s", seed, d)
			}
			moments := map[payments.Moment]int{}
			for n, m := range plan {
				moments[m]++
				if n < 1 || n > 12 {
					t.Errorf("seed %d: kills at request %d", seed, n)
				}
			}
			if len(plan) != kills || len(moments) != min(kills, 2) {
				t.Errorf("seed %d, %d kills: %v", seed, kills, plan)
			}
		}
	}
}

func TestHeadline(t *testing.T) {
	good := summary{Rows: 3, Runs: 3, Finished: 3, Kills: 6, Seed: 7, ledgerctl: "ledgerctl --dir d"}
	tests := []struct {
		name  string
		spoil func(*summary)
		want  string
		shown bool
	}{
		{"all well", func(*summary) {}, "Nobody was refunded twice, and nobody was forgotten.", true},
		{"one in doubt", func(s *summary) { s.InDoubt = 1 }, "Nobody was refunded twice and nobody was forgotten; 1 refund is in doubt and for a person to settle.", true},
		{"void", func(s *summary) { s.Void, s.Kills, s.ProviderEffects = true, 2, 4 }, "Void: a demo needs 5 killed workers to show anything, this one had 2. The backlog makes 4 refunds, and --kills says how many are hit.", false},
		{"failed, and void", func(s *summary) { s.Failed, s.Void = 1, true }, "Nobody was refunded twice, but 1 run failed: see ledgerctl --dir d runs list --state failed", false},
		{"forgotten", func(s *summary) { s.Forgotten, s.InDoubt = 2, 1 }, "Nobody was refunded twice, but 2 runs were forgotten. This is a bug in Daybook: please report it with seed 7.", false},
		{"twice", func(s *summary) { s.DuplicateEffects, s.Forgotten = 1, 2 }, "1 refund was made more than once. This is a bug in Daybook: please report it with seed 7.", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			tt.spoil(&s)
			if s.headline() != tt.want || s.shown() != tt.shown {
				t.Errorf("headline, shown = %q, %t\nwant %q, %t", s.headline(), s.shown(), tt.want, tt.shown)
			}
		})
	}
}

// The names in the JSON are a contract with whoever reads it.
func TestSummaryNames(t *testing.T) {
	got, err := json.MarshalIndent(summary{
		StoppedBy: map[string]int{"finish": 1}, RejectedRows: []rejected{{}}, Doubts: []doubt{{}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/summary.json"
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSpace(string(want)), string(got)); d != "" {
		t.Errorf("%s changed; programs that read demo -o json would break (-want +got):\n%s", golden, d)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"/tmp/a-1": "/tmp/a-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
