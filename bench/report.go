package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one measurement.
type figure struct {
	Part  string  `json:"part"`
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// P50MS and P99MS are of one operation, in milliseconds; 0 = not measured.
	P50MS float64 `json:"p50_ms,omitempty"`
	P99MS float64 `json:"p99_ms,omitempty"`
	// CPUMicros is CPU time of one operation, of all processes that took part.
	CPUMicros float64 `json:"cpu_us,omitempty"`
	// Ratio is Value over the value of the figure named To; 0 = none.
	Ratio float64 `json:"ratio,omitempty"`
	To    string  `json:"ratio_to,omitempty"`
	// Synced says what was fsynced before an operation counted.
	Synced string `json:"synced"`
	Note   string `json:"note,omitempty"`
	Goal   string `json:"goal,omitempty"`
	Met    *bool  `json:"goal_met,omitempty"`
}

// report is everything one run of this program measured.
type report struct {
	Cores   int       `json:"cores"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Load    [2]string `json:"load"` // at the start and at the end
	Figures []figure  `json:"figures"`
}

func newReport(cores int) *report {
	return &report{Cores: cores, Began: time.Now().UTC(), Load: [2]string{load()}}
}

// load is the load average over 1, 5 and 15 minutes.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func (r *report) add(f figure) { r.Figures = append(r.Figures, f) }

// find returns the figure of a name, or nil if its part did not run.
func (r *report) find(name string) *figure {
	i := slices.IndexFunc(r.Figures, func(f figure) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Figures[i]
}

// over sets f's ratio to the value of another figure.
func (r *report) over(f figure, name string) figure {
	if to := r.find(name); to != nil && to.Value > 0 {
		f.Ratio, f.To = f.Value/to.Value, name
	}
	return f
}

// overP50 sets f's ratio to the p50 of another figure.
func (r *report) overP50(f figure, name string) figure {
	if to := r.find(name); to != nil && to.P50MS > 0 {
		f.Ratio, f.To = f.P50MS/to.P50MS, "p50 of "+name
	}
	return f
}

// DBOS is not run here. PERFORMANCE.md has its steps and raw commits of one run
// side by side on this kind of machine; so raw commits measured here stand for it.
const (
	dbosStepsOf64 = 1497.0 / 3450 // steps/s at 64 in flight, per raw commit/s on 64 connections
	dbosP50Of1    = 0.98 / 0.46   // p50 of a step at 1 in flight, per p50 of a raw commit
)

// goal says what the ratio should be; better tells whether more is better.
func (f figure) goal(text string, met bool) figure {
	f.Goal, f.Met = text, &met
	return f
}

// atLeastDBOS states a goal in multiples of DBOS steps/s, against raw commits.
func (r *report) atLeastDBOS(f figure, times float64) figure {
	raw := r.find(rawCommits(64))
	if raw == nil || raw.Value == 0 {
		return f
	}
	got := f.Value / (raw.Value * dbosStepsOf64)
	return f.goal(fmt.Sprintf("≥ %g × DBOS; is %.2f", times, got), got >= times)
}

func (r *report) atMostDBOS(f figure, times float64) figure {
	raw := r.find(rawCommits(1))
	if raw == nil || raw.P50MS == 0 {
		return f
	}
	got := f.P50MS / (raw.P50MS * dbosP50Of1)
	return f.goal(fmt.Sprintf("p50 ≤ %g × DBOS; is %.2f", times, got), got <= times)
}

func (f figure) atLeast(times float64) figure {
	if f.Ratio == 0 {
		return f
	}
	return f.goal(fmt.Sprintf("≥ %g", times), f.Ratio >= times)
}

func (f figure) atMost(times float64) figure {
	if f.Ratio == 0 {
		return f
	}
	return f.goal(fmt.Sprintf("≤ %g", times), f.Ratio <= times)
}

func (r *report) write(w io.Writer, format string) error {
	r.Seconds, r.Load[1] = math.Round(time.Since(r.Began).Seconds()), load()
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	fmt.Fprintf(w, "%d cores, load %s at the start, %s at the end (1, 5, 15 min); %g s. Compare ratios, not figures of two runs.\n\n",
		r.Cores, r.Load[0], r.Load[1], r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tfigure\tp50\tp99\tCPU each\tratio\tto\tfsynced\tgoal")
	last := ""
	for _, f := range r.Figures {
		if f.Part != last {
			if last != "" {
				fmt.Fprintln(t, "\t\t\t\t\t\t\t\t")
			}
			last = f.Part
		}
		ratio, goal := "", f.Goal
		if f.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", f.Ratio)
		}
		if f.Met != nil {
			goal += map[bool]string{true: " ✓", false: " ✗ missed"}[*f.Met]
		}
		fmt.Fprintf(t, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, number(f.Value), f.Unit, millis(f.P50MS), millis(f.P99MS), millis(f.CPUMicros/1000), ratio, f.To, f.Synced, goal)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, f := range r.Figures {
		if f.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", f.Name, f.Note)
		}
	}
	return nil
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func millis(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 1:
		return fmt.Sprintf("%.0f µs", v*1000)
	case v < 100:
		return fmt.Sprintf("%.2f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}

// spread is the latencies of one measurement.
type spread []time.Duration

func (s spread) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return float64(s[min(int(q*float64(len(s))), len(s)-1)].Nanoseconds()) / 1e6
}

// taken is what some operations took together.
type taken struct {
	n    int
	wall time.Duration
	cpu  time.Duration
	each spread // latencies; may be empty
}

// rate is a figure of operations a second.
func rate(part, name string, t taken, synced string) figure {
	return figure{
		Part: part, Name: name, Value: float64(t.n) / t.wall.Seconds(), Unit: "/s", P50MS: t.each.at(0.5), P99MS: t.each.at(0.99),
		CPUMicros: float64(t.cpu.Microseconds()) / float64(max(t.n, 1)), Synced: synced,
	}
}
