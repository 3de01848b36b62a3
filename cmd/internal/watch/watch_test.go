package watch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
)

// Who comes in the middle of an answer, or misses a part, is shown nothing with a gap in it.
func TestShowAfterALoss(t *testing.T) {
	for name, width := range map[string]int{"terminal": 80, "pipe": 0} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			again := 0
			s := Screen{Out: &out, Width: width, Again: func() { again++ }}
			show := func(n uint64, attempt int, kind events.LiveKind, call, text string) {
				s.Show(events.Live{Epoch: 1, Turn: 1, Attempt: attempt, N: n, Kind: kind, Call: call, Text: text})
			}
			show(3, 1, events.LiveCall, "t1.c0", "{}")
			show(4, 1, events.LiveText, "", "a half")
			if out.Len() != 0 || again != 1 {
				t.Fatalf("shown %q, asked for it %d times", &out, again)
			}
			show(5, 1, events.LiveReset, "", "both halves")
			show(6, 1, events.LiveCall, "t1.c0", "{}")
			if got := out.String(); !strings.Contains(got, "both halves") || !strings.Contains(got, "t1.c0") {
				t.Errorf("shown %q", got)
			}
			out.Reset()
			show(2, 2, events.LiveText, "", "late") // of a new attempt, whose beginning is lost
			if again != 2 || strings.Contains(out.String(), "late") {
				t.Errorf("shown %q, asked for it %d times", &out, again)
			}
			show(3, 2, events.LiveVoid, "", "")
			if !strings.Contains(out.String(), "attempt has failed") && !strings.Contains(out.String(), "this attempt") {
				t.Errorf("of what is void is shown %q", &out)
			}
		})
	}
	(&Screen{Out: new(bytes.Buffer)}).Show(events.Live{Kind: events.LiveProgress, Call: "t1.c0"})
}
