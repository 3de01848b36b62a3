package loopstest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
)

// TestCompactions checks what holds of every compaction, whoever decided it and
// wrote its text, in the recorded events of a run; h is the history before them,
// empty or with what the run inherited. It returns how many there are. PR-97.
//
//   - it replaces what it says it does, by the digest, and no less than two messages;
//   - the messages behind it are the same bytes as before, and calls stay with their
//     results;
//   - the run's own input is still there, word for word;
//   - the transcript is smaller, but for one that was refused or cut;
//   - what came in from outside stays known, and a summary of it says so;
//   - its text is that of a recorded model call of the same turn, or there is none.
func TestCompactions(tb testing.TB, h *loops.History, es []events.Event) int {
	tb.Helper()
	n := 0
	for _, e := range es {
		p, ok := e.Data.(events.TranscriptCompacted)
		if !ok {
			if err := h.Apply(e); err != nil {
				tb.Fatal(err)
			}
			continue
		}
		n++
		checkCompaction(tb, h, e, p)
	}
	return n
}

func checkCompaction(tb testing.TB, h *loops.History, e events.Event, p events.TranscriptCompacted) {
	tb.Helper()
	at := fmt.Sprintf("compaction at seq %d", e.Seq)
	before, had, external := slices.Clone(h.Messages()), h.Compactions(), h.SawExternal()
	due, was := h.DueCompaction()
	if err := h.Apply(e); err != nil {
		tb.Fatal(err)
	}
	after := h.Messages()
	switch {
	case h.Compactions() != had+1:
		tb.Fatalf("%s: it does not fit the transcript: %+v of %d messages", at, p.Span, len(before))
	case !was || due.Span != p.Span:
		tb.Errorf("%s: of %+v; the history says %+v, due: %t", at, p.Span, due.Span, was)
	case p.Span.To-p.Span.From < 2:
		tb.Errorf("%s: of %d messages", at, p.Span.To-p.Span.From)
	case h.SawExternal() != external, external != (p.Trust == "external"):
		tb.Errorf("%s: external %t before, %t after, trust %q", at, external, h.SawExternal(), p.Trust)
	case (p.By == events.CompactedByCut) != (p.Text == ""):
		tb.Errorf("%s: by %s, with the text %q", at, p.By, p.Text)
	case p.Text != "" && (due.Answer == nil || due.Answer.Attempt != p.Attempt):
		tb.Errorf("%s: nobody has written its text: answer %+v", at, due.Answer)
	}
	tail := before[p.Span.To:]
	if len(after) < len(tail) {
		tb.Fatalf("%s: %d messages are left, at least %d are kept", at, len(after), len(tail))
	}
	if d := cmp.Diff(tail, after[len(after)-len(tail):]); d != "" {
		tb.Errorf("%s: what is kept is not what it was:\n%s", at, d)
	}
	input := before[:0:0]
	for _, m := range before {
		if m.Role == model.User && m.Text == loops.Input(h.Queued()) {
			input = append(input, m)
		}
	}
	if len(input) > 0 && !slices.ContainsFunc(after, func(m model.Message) bool { return m.Role == model.User && m.Text == input[0].Text }) {
		tb.Errorf("%s: the run's input is gone", at)
	}
	Whole(tb, at, after)
}

// Whole fails tb if calls and results of a transcript do not belong together: a
// provider would refuse it. Only the last answer may lack its results.
func Whole(tb testing.TB, what string, ms []model.Message) {
	tb.Helper()
	for i, m := range ms {
		if m.Role == model.Tool && (i == 0 || len(ms[i-1].Calls) != len(m.Results)) {
			tb.Errorf("%s: message %d has results that nobody asked for", what, i)
		}
		if len(m.Calls) == 0 || i+1 == len(ms) {
			continue
		}
		for j, c := range m.Calls {
			if rs := ms[i+1].Results; j >= len(rs) || rs[j].CallID != c.ID {
				tb.Errorf("%s: message %d asks for %s, which the next one does not answer", what, i, c.ID)
			}
		}
	}
}
