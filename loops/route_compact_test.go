package loops_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
)

// compacts has the next attempts be those of a compaction.
type compacts struct{ *story }

func (s compacts) fails(m, kind string, wait time.Duration) compacts {
	from := len(s.ps)
	s.story.fails(m, kind, wait)
	return s.mark(from)
}

func (s compacts) mark(from int) compacts {
	for i, p := range s.ps[from:] {
		switch p := p.(type) {
		case events.ModelCallStarted:
			p.Purpose, p.Compacts = events.PurposeCompaction, &events.Span{From: 1, To: 3}
			s.ps[from+i] = p
		case events.ModelCallError:
			p.Purpose = events.PurposeCompaction
			s.ps[from+i] = p
		}
	}
	return s
}

func (s compacts) ask(m string) compacts {
	from := len(s.ps)
	s.story.ask(m)
	return s.mark(from)
}

func TestCompactionRoute(t *testing.T) {
	const hour = time.Hour
	of := func(c ...string) compacts { return compacts{storyOf(c...)} }
	compactedBy := func(s compacts, m string) *story {
		p := s.ps[1].(events.RunStarted)
		p.Compaction = &events.Compaction{At: 80, Keep: 2, With: events.CompactedBySummary, Window: 1000, Model: m}
		s.ps[1] = p
		return s.story
	}
	for _, tt := range []struct {
		name string
		run  *story
		want string // of the compaction, and of the turn after it
	}{
		{"the first", of("a", "b").story, "a, a"},
		{"the next one where the first is down, and so does the turn", of("a", "b").fails("a", "overloaded", hour).story, "b instead of a (overloaded), b instead of a (overloaded)"},
		{"a window too small for this request is not too small for the turn", of("a", "b").fails("a", "context_full", 0).story, "b instead of a (context_full), a"},
		{"a refused key", of("a", "b").fails("a", "unauthorized", 0).story, "b instead of a (unauthorized), a"},
		{"a bad request is bad for all, and says nothing of the turn", of("a", "b").fails("a", "invalid_request", 0).story, "nobody, a"},
		{"one that the turns have left alone", of("a", "b").story.with(func(s *story) { s.fails("a", "overloaded", hour).answers("b") }), "b instead of a (overloaded), b instead of a (overloaded)"},
		{"one whose window was too small for a turn", of("a", "b").story.with(func(s *story) { s.fails("a", "context_full", 0) }), "a, b instead of a (context_full)"},
		{"all through", of("a", "b").fails("a", "context_full", 0).fails("b", "panic", 0).story, "nobody, a"},
		{"three failures", of("a", "b").fails("a", "timeout", 1).fails("b", "timeout", hour).fails("a", "timeout", hour).story, "nobody, b instead of a (timeout) in 59m58s, timeout"},
		{"each has a try", of("a", "b", "c", "d").fails("a", "timeout", hour).fails("b", "timeout", hour).fails("c", "timeout", hour).story, "d instead of a (timeout), d instead of a (timeout)"},
		{"cut short, made again where it was", of("a", "b").fails("a", "timeout", 1).ask("b").crash().seconds(99), "b instead of a (timeout), "},
		{"a takeover decides as before it", of("a", "b").fails("a", "timeout", time.Second).crash().seconds(99), "b instead of a (timeout), "},
		{"the policy's", compactedBy(of("a", "b"), "p"), "p, a"},
		{"then the agent's", compactedBy(of("a", "b").fails("p", "unauthorized", 0), "p"), "a instead of p (unauthorized), a"},
		{"which is one of the agent's", compactedBy(of("a", "b").fails("b", "unauthorized", 0), "b"), "a instead of b (unauthorized), a"},
		{"one model alone", of("a").fails("a", "timeout", time.Minute).story, "a in 1m0s, timeout, a in 1m0s, timeout"},
		{"one model alone, refused", of("a").fails("a", "unauthorized", 0).story, "nobody, a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := loopstest.MustFold(t, tt.run.ps...)
			got := "nobody"
			if r, ok := h.CompactionRoute(); ok {
				got = saidOf(h, r)
			}
			got += ", "
			if tt.want[len(tt.want)-2:] != ", " {
				got += told(h)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func (s *story) with(f func(*story)) *story {
	f(s)
	return s
}

// An endpoint that failed a compaction names the next one, as in a turn, which it tells nothing of.
func TestCompactionRouteOfAPool(t *testing.T) {
	s := compacts{storyOf("a", "b")}
	s.next = "x"
	s.fails("a", "unauthorized", 0)
	e := s.ps[len(s.ps)-1].(events.ModelCallError)
	e.NextEndpoint = "y"
	s.ps[len(s.ps)-1] = e
	h := loopstest.MustFold(t, s.ps...)
	if r, ok := h.CompactionRoute(); !ok || r.Model != "a" || r.Endpoint != "y" || fmt.Sprint(h.TriedEndpoints("a")) != "[x]" {
		t.Errorf("%+v %t, tried %v", r, ok, h.TriedEndpoints("a"))
	}
	if r, _ := h.Route(); r.Model != "a" || r.Endpoint != "" {
		t.Errorf("the turn goes to %+v", r)
	}
}

// saidOf is a route in the words of told.
func saidOf(h *loops.History, r loops.Route) string {
	s := r.Model
	if r.Endpoint != "" {
		s += " at " + r.Endpoint
	}
	if r.Degraded != nil {
		s += fmt.Sprintf(" instead of %s (%s)", r.Degraded.From, r.Degraded.Reason)
	}
	if wait := r.At.Sub(h.Time()); !r.At.IsZero() && wait > 0 {
		s += fmt.Sprintf(" in %s, %s", wait, r.Why)
	}
	return s
}
