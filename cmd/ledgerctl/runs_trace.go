package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/trace"
	"github.com/daybookhq/daybook/ledger"
)

// maxTraced bounds how many runs one picture shows.
const maxTraced = 100

// maxNote is how wide the words behind a bar are.
const maxNote = 26

// spanView is a span for machines.
type spanView struct {
	Trace    string         `json:"trace_id"`
	ID       string         `json:"span_id"`
	Parent   string         `json:"parent_id,omitempty"`
	Name     string         `json:"name"`
	Start    time.Time      `json:"start"`
	End      time.Time      `json:"end"`
	Open     bool           `json:"open,omitempty"` // it has not ended
	Error    string         `json:"error,omitempty"`
	Attrs    map[string]any `json:"attributes"`
	Links    []string       `json:"links,omitempty"`
	Children []*spanView    `json:"-"`
}

func (a *app) runsTraceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace RUN",
		Short: "Draws a run as a trace: leases, model calls, tool calls and waits over time",
		Long: `Draws a run and the runs that it started as one trace: who held it and for how long,
each call of a model or a tool, what was interrupted, in doubt, handed back or waited
for. The spans and their ids are those that workers and projectors send to
OpenTelemetry; they are made of the record, so the trace of a run is whole whatever
crashed, and can be drawn where nothing was ever sent.`,
		Example: `  ledgerctl runs trace 7W6X5Y
  ledgerctl runs trace 7W6X5Y -o jsonl | jq -c '[.name, .error]'`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				spans, err := traceOf(ctx, st, r.ID)
				if err != nil {
					return err
				}
				return a.drawTrace(r, spans)
			})
		},
	}
	a.outputFlag(c, showFormats...)
	return c
}

// traceOf folds a run and those that it started.
func traceOf(ctx context.Context, st ledger.Store, run events.RunID) ([]spanView, error) {
	var all []spanView
	runs := []events.RunID{run}
	for n := 0; n < len(runs); n++ {
		id := runs[n]
		f := trace.New(id, trace.Options{})
		var last time.Time
		err := st.Events(ctx, id, 1, func(s events.Sealed) error {
			e, err := s.Decode()
			if err != nil {
				return err
			}
			last = e.Time
			for _, span := range f.Apply(e) {
				all = append(all, viewSpan(span, false))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, span := range f.Open(last) {
			all = append(all, viewSpan(span, true))
		}
		kin, err := st.Descendants(ctx, id, maxTraced)
		if err != nil {
			return nil, err
		}
		for _, k := range kin {
			if k.Parent == id && len(runs) < maxTraced {
				runs = append(runs, k.ID)
			}
		}
	}
	return all, nil
}

func viewSpan(s trace.Span, open bool) spanView {
	v := spanView{
		Trace: s.Trace.String(), ID: s.ID.String(), Name: s.Name, Start: s.Start, End: s.End, Open: open, Error: s.ErrorType, Attrs: map[string]any{},
	}
	if !s.Parent.IsZero() {
		v.Parent = s.Parent.String()
	}
	for _, at := range s.Attrs {
		v.Attrs[at.Key] = at.Value
	}
	for _, l := range s.Links {
		v.Links = append(v.Links, l.Span.String())
	}
	return v
}

func (a *app) drawTrace(r ledger.Run, spans []spanView) error {
	if a.output != formatTable {
		return list[spanView](a, spans, nil, "")
	}
	if len(spans) == 0 {
		fmt.Fprintf(a.err, "run %s has no events yet\n", r.ID)
		return nil
	}
	roots := nest(spans)
	p := picture{t: a.term, begin: roots[0].Start, end: roots[0].End, names: map[string]string{}}
	for _, s := range spans {
		p.names[s.ID] = s.Name
		if s.Start.Before(p.begin) {
			p.begin = s.Start
		}
		if s.End.After(p.end) {
			p.end = s.End
		}
	}
	width := a.term.width
	if width == 0 {
		width = 100
	}
	p.label = min(max(width*2/5, 24), 56)
	p.bar = max(width-p.label-12-maxNote, 10)
	fmt.Fprintf(a.out, "trace %s, run %s, %s\n\n", spans[0].Trace, r.ID, took(p.end.Sub(p.begin)))
	for _, s := range roots {
		p.draw(a, s, 0)
	}
	return nil
}

// nest puts spans below their parents and returns those that have none here.
func nest(spans []spanView) (roots []*spanView) {
	byID := map[string]*spanView{}
	for i := range spans {
		byID[spans[i].ID] = &spans[i]
	}
	for i := range spans {
		s := &spans[i]
		if up := byID[s.Parent]; up != nil && up != s {
			up.Children = append(up.Children, s)
		} else {
			roots = append(roots, s)
		}
	}
	order := func(a, b *spanView) int { return a.Start.Compare(b.Start) }
	for i := range spans {
		slices.SortStableFunc(spans[i].Children, order)
	}
	slices.SortStableFunc(roots, order)
	return roots
}

// picture is a trace drawn as lines: name, how long, and where in time.
type picture struct {
	t          terminal
	begin, end time.Time
	label, bar int
	names      map[string]string
}

func (p *picture) draw(a *app, s *spanView, depth int) {
	name := strings.Repeat("  ", depth) + s.Name
	st := plain
	switch {
	case s.Error != "":
		st = red
	case s.Open:
		st = green
	case s.Attrs[trace.Repeated] != nil, strings.HasPrefix(s.Name, "wait "), strings.HasPrefix(s.Name, "in doubt "):
		st = yellow
	case strings.HasPrefix(s.Name, "lease "), strings.HasPrefix(s.Name, "queue "):
		st = dim
	}
	fmt.Fprintf(a.out, "%s %9s  %s%s\n", p.t.paint(pad(cut(clean(name), p.label), p.label), st), took(s.End.Sub(s.Start)), p.t.paint(p.line(s), st), p.t.paint(p.note(s), st))
	for _, c := range s.Children {
		p.draw(a, c, depth+1)
	}
}

// line shows when a span was, as a part of the whole.
func (p *picture) line(s *spanView) string {
	whole := max(p.end.Sub(p.begin), 1)
	at := func(t time.Time) int { return int(float64(t.Sub(p.begin)) / float64(whole) * float64(p.bar)) }
	from, to := min(at(s.Start), p.bar-1), at(s.End)
	n := max(to-from, 1)
	mark := "█"
	if s.End.Equal(s.Start) {
		mark = "▏"
	}
	return strings.Repeat("·", from) + strings.Repeat(mark, n) + strings.Repeat("·", max(p.bar-from-n, 0))
}

// note says what the bar cannot.
func (p *picture) note(s *spanView) string {
	var all []string
	if s.Error != "" {
		all = append(all, s.Error)
	}
	if s.Open {
		all = append(all, "open")
	}
	if s.Attrs[trace.Repeated] != nil {
		all = append(all, "handed back")
	}
	if v, ok := s.Attrs[trace.Resolved].(string); ok {
		all = append(all, v)
	}
	if v, ok := s.Attrs[trace.StoppedBy].(string); ok {
		all = append(all, v)
	}
	if n, ok := s.Attrs[trace.InputTokens].(int64); ok {
		out, _ := s.Attrs[trace.OutputTokens].(int64)
		all = append(all, fmt.Sprintf("%d+%d tokens", n, out))
	}
	if len(s.Links) > 0 && strings.HasPrefix(s.Name, "lease ") {
		all = append(all, "after "+p.names[s.Links[0]])
	}
	if len(all) == 0 {
		return ""
	}
	return "  " + cut(clean(strings.Join(all, ", ")), maxNote-2)
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// took is a duration in few characters.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
