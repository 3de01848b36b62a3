package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// talked is a ledger of talk, and a way to ask it.
func talked(t *testing.T) (talk, func(width int, color bool, f transcriptFlags, output string, run events.RunID) string) {
	t.Helper()
	dir := t.TempDir()
	w := talk{names: map[string]events.RunID{}}
	if err := fillWith(dir, sqlstore.Config{}, func(f *filler) { w.filler = f; w.fill() }); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return w.now.Add(time.Minute) }
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "ledger.db"), Now: now, Store: sqlstore.Config{Redactor: w.seal}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return w, func(width int, color bool, f transcriptFlags, output string, run events.RunID) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(nil, &out, &out, now)
		a.root()
		a.term, a.output = terminal{width: width, color: color}, output
		s, err := a.readSummary(t.Context(), st, run.String())
		if err == nil {
			err = a.transcript(t.Context(), st, s, f)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
}

// TestTranscript holds what a person reads, on terminals and in a pipe.
func TestTranscript(t *testing.T) {
	w, ask := talked(t)
	for _, tt := range []struct {
		run    string
		width  int
		output string
		flags  transcriptFlags
	}{
		{"long", 80, formatTable, transcriptFlags{prompt: true}},
		{"long", 140, formatTable, transcriptFlags{}},
		{"long", 0, formatTable, transcriptFlags{full: true}},
		{"long", 0, formatJSONL, transcriptFlags{}},
		{"doubt", 80, formatTable, transcriptFlags{}},
		{"fork", 80, formatTable, transcriptFlags{}},
		{"fork", 0, formatJSON, transcriptFlags{}},
		{"hostile", 80, formatTable, transcriptFlags{}},
		{"hostile", 40, formatTable, transcriptFlags{full: true}},
		{"parent", 80, formatTable, transcriptFlags{}},
		{"again", 80, formatTable, transcriptFlags{}},
		{"compacted", 80, formatTable, transcriptFlags{}},
	} {
		name := fmt.Sprintf("%s.%s.%d", tt.run, tt.output, tt.width)
		t.Run(name, func(t *testing.T) {
			got := ask(tt.width, false, tt.flags, tt.output, w.names[tt.run])
			file := filepath.Join("testdata", "transcript", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("%s has changed (-update writes it):\n%s", file, d)
			}
			for line := range strings.Lines(got) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); tt.width > 0 && n > tt.width && !strings.HasPrefix(line, "  ledgerctl") {
					t.Errorf("line of %d columns: %q", n, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("blanks at the end of %q", line)
				}
			}
		})
	}
}

// Nothing that a run says reaches the terminal as anything but text: what is
// painted is painted by us, and what cannot be seen is spelled out.
func TestTranscriptIsHarmless(t *testing.T) {
	w, ask := talked(t)
	for _, full := range []bool{false, true} {
		for _, width := range []int{0, 40, 80} {
			got := ask(width, false, transcriptFlags{full: full, prompt: true}, formatTable, w.names["hostile"])
			for _, r := range got {
				if r != '\n' && (!unicode.IsGraphic(r) || unicode.Is(unicode.Variation_Selector, r) || r == '\u3164') {
					t.Errorf("width %d: %U in the output", width, r)
				}
			}
			for _, want := range []string{`\x1b[2J`, `\u202etxt.exe`, `zero\u200bwidth`, `\x07`, `\u009b31m`, `\U000e0101`, `\u3164`, `\U000e0041`} {
				if !strings.Contains(strings.ReplaceAll(got, "\n", ""), want) && width != 40 {
					t.Errorf("width %d: %s is not shown", width, want)
				}
			}
			// With colours the only escapes are ours.
			painted := ask(width, true, transcriptFlags{full: full}, formatTable, w.names["hostile"])
			for i, part := range strings.Split(painted, "\x1b[") {
				if code, _, ok := strings.Cut(part, "m"); i > 0 && (!ok || strings.Trim(code, "0123456789") != "") {
					t.Errorf("an escape that is not ours: %q", part)
				}
			}
		}
	}
}

// The totals of a transcript are those of costs, and of the sections' sums.
func TestTranscriptTotalsAreThoseOfCosts(t *testing.T) {
	w, ask := talked(t)
	for name, run := range w.names {
		t.Run(name, func(t *testing.T) {
			var cost, model, tool dollars
			var last telling.ToldView
			for line := range strings.Lines(ask(0, false, transcriptFlags{}, formatJSONL, run)) {
				var v telling.ToldView
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if v.Kind == telling.ToldTurn && v.Inherited.IsZero() {
					cost, model, tool = sum(cost, dollars{v.Sums.Cost.Pico}), sum(model, dollars{v.Sums.ModelCost.Pico}), sum(tool, dollars{v.Sums.ToolCost.Pico})
				}
				last = v
			}
			if last.Kind != telling.ToldTotals {
				t.Fatalf("the last line is %+v", last)
			}
			got := last.Sums
			if cost.orZero().Cmp(got.Cost.OrZero()) != 0 || model.orZero().Cmp(got.ModelCost.OrZero()) != 0 || tool.orZero().Cmp(got.ToolCost.OrZero()) != 0 {
				t.Errorf("the turns come to %v, the run to %v", cost, got.Cost)
			}
			st, err := sqlite.Open(t.Context(), sqlite.Config{Path: w.path, Store: sqlstore.Config{Redactor: w.seal}})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			rows, err := st.Costs(t.Context(), ledger.CostFilter{Run: run})
			if err != nil {
				t.Fatal(err)
			}
			var want ledger.CostRow
			if len(rows) > 0 {
				want = rows[0]
			}
			if d := cmp.Diff([]any{
				dollars{want.ModelCost}.orZero().String(), dollars{want.ToolCost}.orZero().String(), want.ModelCalls, want.ToolCalls,
				want.Unpriced, want.Unmeasured, want.Unsettled, want.InputTokens, want.OutputTokens,
			}, []any{
				got.ModelCost.OrZero().String(), got.ToolCost.OrZero().String(), got.ModelCalls, got.ToolCalls,
				got.Unpriced, got.Unmeasured, got.Unsettled, got.Input, got.Output,
			}); d != "" {
				t.Errorf("costs and the transcript (-costs +transcript):\n%s", d)
			}
		})
	}
}

// A transcript is written as it is read: what is kept meanwhile is a turn.
func TestTranscriptOfALongRun(t *testing.T) {
	const turns = 2500
	var kept, told int
	tl := telling.NewTeller(events.RunID{1}, false, func(s *telling.Section) error {
		kept = max(kept, len(s.Told))
		told += len(s.Told)
		return nil
	})
	r := redact.New(redact.Config{})
	seq, prev := uint64(0), events.Genesis(events.RunID{1})
	note := func(p events.Payload) {
		seq++
		data, err := r.JSON(p)
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Seal(events.Envelope{ID: events.ID{1, 15: 1}, RunID: events.RunID{1}, Seq: seq, Epoch: 1, Type: events.TypeOf(p), Version: 1, Time: began, Tenant: "acme", Prev: prev}, data)
		if err == nil {
			prev = e.Hash()
			err = tl.Event(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for turn := 1; turn <= turns; turn++ {
		note(events.TurnStarted{Turn: turn})
		note(events.ModelCallStarted{Turn: turn, Attempt: 1, Model: "m"})
		note(events.ModelCallFinished{Turn: turn, Attempt: 1, Model: "m", ServedModel: "m", Text: "on", StopReason: "end_turn", Cost: price(1)})
		note(events.SignalReceived{Name: "go"})
	}
	totals, err := tl.End()
	if err != nil {
		t.Fatal(err)
	}
	if kept != 2 || told != 2*turns || totals.Sums.Turns != turns || totals.Sums.Cost.OrZero().Int64() != turns {
		t.Errorf("kept %d at a time of %d, totals %+v", kept, told, totals.Sums)
	}
}

// Every type of event has its place in a transcript, but those whose outcome is told.
func TestTranscriptTellsEveryType(t *testing.T) {
	silent := map[events.Type]bool{
		"turn_started": true, "model_call_started": true, "artifact_validation_started": true, "run_unparked": true, "timer_fired": true,
	}
	for _, typ := range events.Types() {
		version, _ := events.CurrentVersion(typ)
		p, err := events.DecodePayload(typ, version, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		tl := telling.NewTeller(events.RunID{1}, false, func(*telling.Section) error { return nil })
		tl.Bound = true
		tl.Told(events.Event{Envelope: events.Envelope{RunID: events.RunID{1}, Seq: 1, Type: typ}, Data: p}, ledger.Rows{})
		if told := len(tl.Cur.Told) == 1; told == silent[typ] {
			t.Errorf("%s: told is %v", typ, told)
		}
	}
}

// UnmarshalText reads what MarshalText wrote.
func (d *dollars) UnmarshalText(b []byte) (err error) {
	d.pico, err = events.ParsePico(string(b))
	return err
}

func sum(a, b dollars) dollars { return dollars{new(big.Int).Add(a.orZero(), b.orZero())} }
