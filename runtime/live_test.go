package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
)

// audience keeps what is told, and says whether somebody watches.
type audience struct {
	mu      sync.Mutex
	watched uint64
	looked  int // how often it was asked
	got     []events.Live
}

func (a *audience) Tell(m events.Live) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = append(a.got, m)
	return true
}

func (a *audience) Watched(string, events.RunID) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked++
	return a.watched
}

// look waits until somebody has looked n times more whether there is a viewer.
func (a *audience) look(w *world, n int) {
	count := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.looked
	}
	before := count()
	w.until("it is looked for viewers", func() bool { return count() >= before+n })
}

func (a *audience) watch(n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watched = n
}

func (a *audience) heard() []events.Live {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]events.Live(nil), a.got...)
}

// teller is a model whose answers are told by a function.
type teller struct {
	mu     sync.Mutex
	n      int
	answer func(ctx context.Context, n int, told func(model.Delta)) (model.Response, error)
}

func (m *teller) Call(ctx context.Context, r model.Request) (model.Response, error) {
	return m.Stream(ctx, r, func(model.Delta) {})
}

func (m *teller) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	m.mu.Lock()
	m.n++
	n := m.n
	m.mu.Unlock()
	resp, err := m.answer(ctx, n, told)
	resp.Model = r.Model
	return resp, err
}

// toldOf is what somebody sees of the last attempt who misses nothing.
func toldOf(ms []events.Live) (text, reasoning string, calls []events.Live) {
	for _, m := range ms {
		switch m.Kind {
		case events.LiveReset, events.LiveWhole:
			text = m.Text
			if m.Kind == events.LiveReset {
				reasoning, calls = "", nil
			}
		case events.LiveText:
			text += m.Text
		case events.LiveReasoning:
			reasoning += m.Text
		case events.LiveCall:
			calls = append(calls, m)
		}
	}
	return text, reasoning, calls
}

// What people see is what will be recorded, and no message has any part of a
// secret that is worth having, however the answer is cut into pieces.
func TestLiveTellsWhatIsRecorded(t *testing.T) {
	const canary = "canary correct horse 77 battery"
	token := "np" + "m_" + strings.Repeat("a1", 18)
	text := "First " + canary + " and then\nencoded: Y2FuYXJ5IGNvcnJlY3QgaG9yc2UgNzcgYmF0dGVyeQ== so.\nAuthorization: Bearer abcdef0123456789abcdef\n" +
		"password: \"two words1\" " + token + " sk-" + "live-abcdefgh12345678 \\u0063anary correct horse 77 battery. The end."
	a := &audience{watched: 1}
	var w *world
	m := &teller{answer: func(_ context.Context, n int, told func(model.Delta)) (model.Response, error) {
		if n > 1 {
			told(model.Delta{Kind: events.BlockText, Text: "Done."})
			return model.Response{Text: "Done.", StopReason: "end_turn"}, nil
		}
		for i := range text {
			told(model.Delta{Kind: events.BlockText, Text: text[i : i+1]})
			if i%40 == 17 {
				a.look(w, 1)
			}
		}
		for i := range canary {
			told(model.Delta{Kind: events.BlockReasoning, Text: canary[i : i+1]})
		}
		args := `{"api_key":"short1","note":"` + canary + `"}`
		told(model.Delta{Kind: events.BlockCall, Name: "nothing_of_that_name"})
		for i := range args {
			told(model.Delta{Kind: events.BlockCall, Text: args[i : i+1]})
		}
		return model.Response{
			Text: text, StopReason: "tool_use", Calls: []events.ToolCall{{Name: "nothing_of_that_name", Arguments: json.RawMessage(args)}},
			Blocks: []events.Block{{Kind: events.BlockReasoning, Text: canary}, {Kind: events.BlockText}, {Kind: events.BlockCall}},
		}, nil
	}}
	w = newWorld(t, m)
	if err := w.vault.Set("canary", canary); err != nil {
		t.Fatal(err)
	}
	w.cfg = func(c *runtime.Config) { c.Live = a }
	k := w.start()
	r := w.wait(w.submit("go").ID, true)
	k.stop(t)
	var first []events.Live
	for _, msg := range a.heard() {
		b, err := json.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{canary, "correct horse", "horse 77", "Y2FuYXJ5", "abcdef0123456789", "two words1", token[:12], "abcdefgh1234", "short1"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%q was told in %s", secret, b)
			}
		}
		if msg.Turn == 1 {
			first = append(first, msg)
		}
	}
	for _, e := range w.history(r.ID) {
		d, ok := e.Data.(events.ModelCallFinished)
		if !ok || d.Turn != 1 {
			continue
		}
		gotText, gotReasoning, calls := toldOf(first)
		if gotText != d.Text || gotReasoning != d.Blocks[0].Text {
			t.Errorf("told %q and %q,\nrecorded %q and %q", gotText, gotReasoning, d.Text, d.Blocks[0].Text)
		}
		if len(calls) != 2 || calls[0].Text != "" || calls[1].Text != string(d.ToolCalls[0].Arguments) || calls[1].Call != "t1.c0" {
			t.Errorf("calls %+v, recorded %s", calls, d.ToolCalls[0].Arguments)
		}
	}
	for i, msg := range first {
		if msg.N != uint64(i+1) || msg.Run != r.ID || msg.Epoch != 1 || msg.Attempt != 1 {
			t.Errorf("message %d is %+v", i, msg)
		}
	}
	if n := len(first); n < 2 || first[0].Kind != events.LiveReset || first[n-1].Kind != events.LiveEnd {
		t.Errorf("the first turn was told as %+v", first)
	}
	w.whole()
}

// An attempt that fails is void, and the next begins anew.
func TestLiveOfAFailedAttempt(t *testing.T) {
	a := &audience{watched: 1}
	var w *world
	m := &teller{answer: func(_ context.Context, n int, told func(model.Delta)) (model.Response, error) {
		told(model.Delta{Kind: events.BlockText, Text: "The answer is coming, "})
		if n == 1 {
			told(model.Delta{Kind: events.BlockText, Text: "but it stops secr"})
			w.until("a part is told", func() bool { text, _, _ := toldOf(a.heard()); return text != "" })
			return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errors.New("cut off")}
		}
		told(model.Delta{Kind: events.BlockText, Text: "and here it is."})
		return model.Response{Text: "The answer is coming, and here it is.", StopReason: "end_turn"}, nil
	}}
	w = newWorld(t, m)
	w.cfg = func(c *runtime.Config) { c.Live = a }
	w.start()
	w.wait(w.submit("go").ID, false)
	var kinds []string
	var fold events.LiveFold
	var steps []events.LiveStep
	for _, msg := range a.heard() {
		if strings.Contains(msg.Text, "secr") {
			t.Errorf("a word without its end was told: %q", msg.Text)
		}
		kinds = append(kinds, string(msg.Kind))
		steps = append(steps, fold.Apply(msg))
	}
	got := strings.Join(kinds, " ")
	if !strings.HasPrefix(got, "reset void reset") || !strings.HasSuffix(got, "end") {
		t.Errorf("told %s", got)
	}
	if steps[0] != events.LiveBegin || steps[2] != events.LiveAgain {
		t.Errorf("a viewer takes that for %v", steps)
	}
	if text, _, _ := toldOf(a.heard()); text != "The answer is coming, and here it is." {
		t.Errorf("shown at the end: %q", text)
	}
}

// Nobody watches: nothing is told. Somebody comes: he is told from the beginning.
func TestLiveOfALateViewer(t *testing.T) {
	a := &audience{}
	var w *world
	m := &teller{answer: func(_ context.Context, _ int, told func(model.Delta)) (model.Response, error) {
		told(model.Delta{Kind: events.BlockText, Text: "One two three "})
		a.look(w, 3)
		if n := len(a.heard()); n != 0 {
			t.Errorf("%d messages to nobody", n)
		}
		a.watch(7)
		w.until("the beginning is told", func() bool { text, _, _ := toldOf(a.heard()); return text == "One two three " })
		told(model.Delta{Kind: events.BlockText, Text: "four "})
		a.watch(8) // another one
		w.until("all is told again", func() bool {
			n := 0
			for _, msg := range a.heard() {
				if msg.Kind == events.LiveReset {
					n++
				}
			}
			return n == 2
		})
		return model.Response{Text: "One two three four ", StopReason: "end_turn"}, nil
	}}
	w = newWorld(t, m)
	w.cfg = func(c *runtime.Config) { c.Live = a }
	w.start()
	w.wait(w.submit("go").ID, false)
	if text, _, _ := toldOf(a.heard()); text != "One two three four " {
		t.Errorf("shown: %q of %+v", text, a.heard())
	}
	// Who was there from the beginning takes no notice of what is told again.
	var fold events.LiveFold
	seen := ""
	for _, msg := range a.heard() {
		switch fold.Apply(msg) {
		case events.LiveBegin, events.LiveAgain:
			seen = msg.Text
		case events.LiveMore:
			seen += msg.Text
		}
	}
	if seen != "One two three four " || fold.Lost() {
		t.Errorf("seen %q, lost %v", seen, fold.Lost())
	}
}
