package ui

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/trace"
)

// How much of a run one picture shows. A longer run is read to its end all the
// same, and shown in pages.
const (
	actsPerPage = 250
	maxEvents   = 50_000
)

// kind is what an act of a run is, and how it is drawn.
type kind string

const (
	kindQueue kind = "queue" // nobody had taken the run
	kindLease kind = "lease" // a worker holds it
	kindWait  kind = "wait"
	kindDoubt kind = "doubt"
	kindModel kind = "model"
	kindTool  kind = "tool"
	kindCheck kind = "check" // of an artifact
	kindPoint kind = "point" // somebody from outside did something
)

// mark is what must be seen at a glance.
type mark struct{ word, tone, title string }

// act is one line of a waterfall.
type act struct {
	kind       kind
	name       string
	turn       int
	call       string // of a tool, as t1.c0
	start, end time.Time
	open       bool
	failed     bool
	marks      []mark
	in, out    int64 // tokens
	usage      bool
	cost       string
	newTurn    bool // the first act of its turn here
}

// waterfall is a run over time.
type waterfall struct {
	acts       []act
	begin, end time.Time
	scale      scale
	cut        bool // the run has more events than are drawn
	total      int
	page       int // from 0
}

// fold reads a run's events as a trace.
func (c *chrome) fold(ctx context.Context, run events.RunID, ended bool) (*waterfall, error) {
	f := trace.New(run, trace.Options{})
	var spans []trace.Span
	w := &waterfall{}
	n := 0
	var last time.Time
	err := c.read.Events(ctx, run, 1, func(s events.Sealed) error {
		if n++; n > maxEvents {
			w.cut = true
			return errEnough
		}
		e, err := s.Decode()
		if err != nil {
			return nil //nolint:nilerr // the list of events shows what this build cannot read
		}
		last = e.Time
		spans = append(spans, f.Apply(e)...)
		return nil
	})
	if err != nil && !isEnough(err) {
		return nil, err
	}
	open := map[trace.SpanID]bool{}
	if n > 0 && !f.Ended() {
		at := c.now
		if ended || at.Before(last) {
			at = last // nothing goes on after the end
		}
		for _, s := range f.Open(at) {
			open[s.ID] = true
			spans = append(spans, s)
		}
	}
	w.draw(spans, open)
	return w, nil
}

// draw makes lines of spans, in the order of time.
func (w *waterfall) draw(spans []trace.Span, open map[trace.SpanID]bool) {
	lost := map[trace.SpanID]bool{}
	for _, s := range spans {
		if s.ErrorType == "worker_lost" {
			lost[s.ID] = true
		}
	}
	for _, s := range spans {
		if w.begin.IsZero() || s.Start.Before(w.begin) {
			w.begin = s.Start
		}
		if s.End.After(w.end) {
			w.end = s.End
		}
		if a, ok := actOf(s, lost); ok {
			a.open = open[s.ID]
			w.acts = append(w.acts, a)
		}
		for _, m := range s.Moments {
			if m.Name != "progress" {
				w.acts = append(w.acts, act{kind: kindPoint, name: m.Name, start: m.At, end: m.At})
			}
		}
	}
	slices.SortStableFunc(w.acts, func(a, b act) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(rank(a.kind), rank(b.kind)))
	})
	turn := 0
	for i := range w.acts {
		if a := &w.acts[i]; a.turn > turn {
			turn, a.newTurn = a.turn, true
		}
	}
	w.total = len(w.acts)
	w.scale = newScale(w.begin, w.end, w.acts)
}

// rank orders what began at the same moment.
func rank(k kind) int {
	return slices.Index([]kind{kindQueue, kindLease, kindModel, kindTool, kindCheck, kindPoint, kindDoubt, kindWait}, k)
}

func actOf(s trace.Span, lost map[trace.SpanID]bool) (act, bool) {
	first, rest, _ := strings.Cut(s.Name, " ")
	a := act{name: rest, start: s.Start, end: s.End}
	if n, ok := s.Attr(trace.Turn).(int64); ok {
		a.turn = int(n)
	}
	switch {
	case first == trace.InvokeAgent:
		return a, false
	case strings.HasPrefix(s.Name, "in doubt "):
		a.kind, a.name = kindDoubt, strings.TrimPrefix(s.Name, "in doubt ")
		a.doubt(s)
	case first == "queue":
		a.kind = kindQueue
	case first == "lease":
		a.kind = kindLease
		if s.ErrorType == "worker_lost" {
			a.marks = append(a.marks, mark{"worker lost", "bad", "It stopped without handing the run over: it was killed, or cut off."})
		}
		if len(s.Links) > 0 && lost[s.Links[0].Span] {
			a.marks = append(a.marks, mark{"takeover", "warn", "It took the run over from a worker that was lost."})
		}
	case first == "wait":
		a.kind = kindWait
	case first == trace.Chat:
		a.kind = kindModel
		a.model(s)
	case first == trace.ExecuteTool:
		a.kind = kindTool
		a.tool(s)
	case first == "validate":
		a.kind = kindCheck
		if ok, said := s.Attr(trace.Accepted).(bool); said && !ok {
			a.marks = append(a.marks, mark{"refused", "warn", "The validator did not accept this version."})
		} else if said {
			a.marks = append(a.marks, mark{"accepted", "good", ""})
		}
	default:
		return a, false
	}
	if a.kind != kindLease && s.ErrorType != "" {
		a.failed = true
	}
	if c, ok := s.Attr(trace.Cost).(string); ok {
		a.cost = c
	}
	return a, true
}

func (a *act) model(s trace.Span) {
	if n, ok := s.Attr(trace.InputTokens).(int64); ok {
		a.usage, a.in = true, n
		a.out, _ = s.Attr(trace.OutputTokens).(int64)
	}
	if n, _ := s.Attr(trace.Attempt).(int64); n > 1 {
		a.marks = append(a.marks, mark{"attempt " + count(n), "dim", ""})
	}
	switch {
	case s.ErrorType == "interrupted":
		a.marks = append(a.marks, mark{"interrupted", "warn", "Its worker was lost before the answer came. It is asked again; what it cost shows if the answer comes in late."})
	case s.ErrorType != "":
		a.marks = append(a.marks, mark{words(s.ErrorType), "bad", ""})
	case slices.ContainsFunc(s.Links, func(l trace.Link) bool { return l.Why == "late outcome of" }):
		a.marks = append(a.marks, mark{"late answer", "dim", "It came when the run had gone on already: it counts as cost, and is no part of the transcript."})
	}
}

func (a *act) tool(s trace.Span) {
	a.call, _ = s.Attr(trace.ToolCallID).(string)
	if e, _ := s.Attr(trace.Effect).(string); e == "destructive" {
		a.marks = append(a.marks, mark{"destructive", "effect", "It changes something outside: it takes effect at most once."})
	}
	if n, _ := s.Attr(trace.Attempt).(int64); n > 1 {
		a.marks = append(a.marks, mark{"attempt " + count(n), "dim", ""})
	}
	if again, _ := s.Attr(trace.Repeated).(bool); again {
		a.marks = append(a.marks, mark{"replayed", "good", "It was not executed again: the outcome of an earlier call was handed back."})
	}
	if sim, _ := s.Attr(trace.Simulated).(bool); sim {
		a.marks = append(a.marks, mark{"simulated", "dim", "A fork does not execute it."})
	}
	if why, ok := s.Attr(trace.Blocked).(string); ok {
		detail, _ := s.Attr(trace.BlockedWhy).(string)
		a.marks = append(a.marks, mark{"blocked", "warn", joined(": ", words(why), words(detail))})
		return
	}
	switch s.ErrorType {
	case "":
	case "in_doubt":
		cause, _ := s.Attr(trace.DoubtCause).(string)
		a.marks = append(a.marks, mark{"in doubt", "doubt", "Nobody can know whether it took effect (" + words(cause) + ")."})
	case "interrupted":
		a.marks = append(a.marks, mark{"interrupted", "warn", "Its worker was lost. It changes nothing outside, so it is made again."})
	default:
		a.marks = append(a.marks, mark{words(s.ErrorType), "bad", ""})
	}
}

func (a *act) doubt(s trace.Span) {
	a.call, _ = s.Attr(trace.ToolCallID).(string)
	if as, ok := s.Attr(trace.Resolved).(string); ok {
		by, _ := s.Attr(trace.ResolvedBy).(string)
		a.marks = append(a.marks, mark{"resolved: " + words(as), "good", "by a " + words(by)})
		return
	}
	a.marks = append(a.marks, mark{"waits for an answer", "doubt", "The inbox shows what is known, and asks."})
}

// cutTo leaves the acts of one page.
func (w *waterfall) cutTo(n int) {
	pages := max((len(w.acts)+actsPerPage-1)/actsPerPage, 1)
	w.page = min(max(n, 0), pages-1)
	from := w.page * actsPerPage
	w.acts = w.acts[from:min(from+actsPerPage, len(w.acts))]
}

// width is how wide a waterfall is, in its own units.
const width = 1000

// scale says where a moment stands, from 0 to [width]. Long stretches in which the
// run does nothing are drawn shorter, together at most half of the whole: else an
// approval that took a night would leave the work no room.
type scale struct {
	at   []time.Time
	x    []float64
	gaps []gap
}

// gap is a stretch that is drawn shorter than it was.
type gap struct {
	from, to float64
	lasted   time.Duration
}

func newScale(begin, end time.Time, acts []act) scale {
	busy := busyTimes(begin, end, acts)
	var work time.Duration
	var idle []time.Duration
	at := begin
	for _, b := range busy {
		idle = append(idle, b[0].Sub(at))
		work += b[1].Sub(b[0])
		at = b[1]
	}
	idle = append(idle, end.Sub(at))
	most := end.Sub(begin)
	if work > 0 {
		long := 0
		for _, d := range idle {
			if d > work/10 {
				long++
			}
		}
		if long > 0 {
			most = max(work/time.Duration(long+1), time.Millisecond)
		}
	}
	sum := work
	for _, d := range idle {
		sum += min(d, most)
	}
	s := scale{at: []time.Time{begin}, x: []float64{0}}
	x := 0.0
	add := func(t time.Time, d, shown time.Duration) {
		if d <= 0 {
			return
		}
		from := x
		x += float64(shown) / float64(max(sum, 1)) * width
		s.at, s.x = append(s.at, t), append(s.x, x)
		if d > 2*shown {
			s.gaps = append(s.gaps, gap{from, x, d})
		}
	}
	at = begin
	for i, b := range busy {
		add(b[0], idle[i], min(idle[i], most))
		add(b[1], b[1].Sub(b[0]), b[1].Sub(b[0]))
		at = b[1]
	}
	add(end, end.Sub(at), min(end.Sub(at), most))
	return s
}

// busyTimes are the stretches in which a model or a tool was at work.
func busyTimes(begin, end time.Time, acts []act) (busy [][2]time.Time) {
	for _, a := range acts { // in the order of their starts
		if a.kind != kindModel && a.kind != kindTool && a.kind != kindCheck || !a.end.After(a.start) {
			continue
		}
		from, to := a.start, a.end
		if to.After(end) {
			to = end
		}
		if from.Before(begin) {
			from = begin
		}
		if n := len(busy); n > 0 && !from.After(busy[n-1][1]) {
			if to.After(busy[n-1][1]) {
				busy[n-1][1] = to
			}
			continue
		}
		busy = append(busy, [2]time.Time{from, to})
	}
	return busy
}

// pos is where a moment stands.
func (s scale) pos(t time.Time) float64 {
	i, ok := slices.BinarySearchFunc(s.at, t, time.Time.Compare)
	switch {
	case ok:
		return s.x[i]
	case i == 0:
		return 0
	case i == len(s.at):
		return s.x[len(s.x)-1]
	}
	part := float64(t.Sub(s.at[i-1])) / float64(s.at[i].Sub(s.at[i-1]))
	return s.x[i-1] + part*(s.x[i]-s.x[i-1])
}

// bar is where an act stands and how wide it is: never so narrow that it is not seen.
func (s scale) bar(a act) (x, w string) {
	const least = 3
	from, to := s.pos(a.start), s.pos(a.end)
	w0 := math.Max(to-from, least)
	from = math.Min(from, width-w0)
	return round(math.Max(from, 0)), round(w0)
}

func round(f float64) string { return number(math.Round(f*10) / 10) }
