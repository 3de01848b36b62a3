package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/daybookhq/daybook/events"
)

// How progress is shown.
const (
	progressAuto  = "auto"  // a bar if stderr is a terminal
	progressPlain = "plain" // lines on stderr, every so often
	progressNone  = "none"
)

var progressKinds = []string{progressAuto, progressPlain, progressNone}

// plainEvery is the time between two lines of --progress plain.
const plainEvery = 10 * time.Second

// progressFlag adds --progress to a command whose work may be long.
func (a *app) progressFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.progressKind, "progress", progressAuto, "auto (a bar on a terminal), plain (lines on stderr) or none")
	inner := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(progressKinds, a.progressKind) {
			return usagef("--progress %q: want %s", a.progressKind, strings.Join(progressKinds, ", "))
		}
		if inner != nil {
			return inner(c, args)
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("progress", cobra.FixedCompletions(progressKinds, cobra.ShellCompDirectiveNoFileComp))
}

// progress shows on stderr how far long work has come. It is safe for concurrent use.
type progress struct {
	what, unit  string
	done, total atomic.Int64
	begun       time.Time
	tick        func() <-chan time.Time // of plain lines; nil = by the clock

	bars *mpb.Progress // on a terminal
	bar  *mpb.Bar

	stop  chan struct{} // of the writer of lines
	lines sync.WaitGroup
	err   io.Writer
}

// startProgress begins to show work: what is a verb such as "verifying", unit what is
// counted. A total of 0 is not known. Stop ends it.
func (a *app) startProgress(ctx context.Context, what, unit string, total int64) *progress {
	p := &progress{what: what, unit: unit, begun: time.Now(), err: a.err}
	p.total.Store(total)
	f, isFile := a.err.(*os.File)
	switch {
	case a.progressKind == progressPlain:
		p.stop = make(chan struct{})
		p.lines.Go(p.writeLines)
	case a.progressKind == progressAuto && isFile && terminalOf(f).width > 0 && os.Getenv("TERM") != "dumb":
		p.bars = mpb.NewWithContext(ctx, mpb.WithOutput(f), mpb.WithWidth(28), mpb.WithRefreshRate(250*time.Millisecond))
		told := decor.Any(func(decor.Statistics) string { return " " + p.told(time.Since(p.begun)) })
		p.bar = p.bars.New(total, mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding("-").Rbound("]"),
			mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(what+" ")), mpb.AppendDecorators(told))
	}
	return p
}

// Total says how much there is to do once it is known.
func (p *progress) Total(n int64) {
	p.total.Store(n)
	if p.bar != nil {
		p.bar.SetTotal(n, false)
	}
}

// Set says how much is done.
func (p *progress) Set(n int64) {
	p.done.Store(n)
	if p.bar != nil {
		// A bar that is full is over; there may be more than was counted before.
		if t := p.total.Load(); t > 0 {
			n = min(n, t-1)
		}
		p.bar.SetCurrent(n)
	}
}

// Add says how much more is done.
func (p *progress) Add(n int64) { p.Set(p.done.Load() + n) }

// Above runs write, which writes elsewhere, so that the bar stands below what it
// writes if both are on one terminal.
func (p *progress) Above(out io.Writer, write func(io.Writer) error) error {
	if f, ok := out.(*os.File); p.bars == nil || !ok || terminalOf(f).width == 0 {
		return write(out)
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	_, err := p.bars.Write([]byte(b.String()))
	return err
}

// Stop takes the bar away, or writes the last line, and returns once nothing of it
// is written any more. It may be called twice.
func (p *progress) Stop() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
		p.bars, p.bar = nil, nil
	}
	if p.stop != nil {
		close(p.stop)
		p.lines.Wait()
		p.stop = nil
	}
}

func (p *progress) writeLines() {
	ticks := p.tick
	if ticks == nil {
		t := time.NewTicker(plainEvery)
		defer t.Stop()
		ticks = func() <-chan time.Time { return t.C }
	}
	for {
		select {
		case <-ticks():
			fmt.Fprintf(p.err, "%s: %s\n", p.what, p.told(time.Since(p.begun)))
		case <-p.stop:
			fmt.Fprintf(p.err, "%s: %s in %s\n", p.what, p.counted(), time.Since(p.begun).Round(100*time.Millisecond))
			return
		}
	}
}

func (p *progress) counted() string { return fmt.Sprintf("%s %s", thousands(p.done.Load()), p.unit) }

// told is how far it has come: of how much, how fast, and how long still.
func (p *progress) told(since time.Duration) string {
	done, total := p.done.Load(), p.total.Load()
	if total <= 0 {
		return fmt.Sprintf("%s, %s/s", p.counted(), thousands(rate(done, since)))
	}
	s := fmt.Sprintf("%s of %s %s (%d %%), %s/s", thousands(done), thousands(total), p.unit, min(100, done*100/total), thousands(rate(done, since)))
	if done > 0 && done < total {
		left := time.Duration(float64(since) / float64(done) * float64(total-done))
		s += ", " + span(left.Round(time.Second)) + " left"
	}
	return s
}

func rate(n int64, in time.Duration) int64 {
	if in <= 0 {
		return 0
	}
	return int64(float64(n) / in.Seconds())
}

// thousands writes n in groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// counting counts the messages that pass through a reader of the journal.
type counting struct {
	events.Reader
	p *progress
}

// Read implements [events.Reader].
func (c counting) Read(ctx context.Context, from, to uint64, f func(events.Message) error) error {
	return c.Reader.Read(ctx, from, to, func(m events.Message) error {
		c.p.Add(1)
		return f(m)
	})
}

// countMessages shows how far a reader of the whole journal has come.
func (a *app) countMessages(ctx context.Context, what string, r events.Reader) (counting, error) {
	at, err := r.Position(ctx)
	if err != nil {
		return counting{}, err
	}
	return counting{r, a.startProgress(ctx, what, "messages", int64(at.Last-at.First+1))}, nil //nolint:gosec // sequences
}
