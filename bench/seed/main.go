// Command seed makes a large ledger whose every row came through the store that
// clients, workers and projectors use, and measures what is asked of one.
//
//	go run ./bench/seed fill -runs 100000 -o /dev/shm/seed.db
//	go run ./bench/seed copy -from /dev/shm/seed.db -to 'postgres://…'
//	go run ./bench/seed measure -ledger /dev/shm/seed.db -ledgerctl ./ledgerctl
//
// The same flags of fill make the same ledger, to the byte. README.md says what
// is in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

// usageError is a command line that cannot be meant.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{"fill": fillCommand, "copy": copyCommand, "measure": measureCommand}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], stdout, stderr)
	}
	return usagef("want one of fill, copy and measure; fill -h says more")
}

// parse reads flags. What it cannot read it has told, with the flags that there are.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usagef("unknown argument %q", flags.Arg(0))
	}
	return nil
}

func fillCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("seed fill", flag.ContinueOnError)
	var p plan
	path := flags.String("o", "", "the SQLite file to make; on a memory file system it takes half the time")
	until := flags.String("until", "", "the day at whose beginning (UTC) the ledger ends; default today")
	flags.IntVar(&p.runs, "runs", 100_000, "how many runs are submitted; each makes about ten tool calls")
	flags.Uint64Var(&p.seed, "seed", 1, "another one makes other runs")
	flags.IntVar(&p.days, "days", 90, "over how many days")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if *path == "" || p.runs < 1 || p.days < 1 {
		return usagef("fill wants -o FILE, and at least one run and day")
	}
	p.until = time.Now().UTC().Truncate(24 * time.Hour)
	if *until != "" {
		var err error
		if p.until, err = time.Parse(time.DateOnly, *until); err != nil {
			return usagef("-until %q: want a day such as 2026-01-31", *until)
		}
	}
	if _, err := os.Stat(*path); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another file", *path)
	}
	// A file that is not complete has another name, and is begun again.
	part := *path + ".part"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(part + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	pr := newProgress(stderr, p.runs)
	t, err := fill(ctx, part, p, pr.show)
	pr.end()
	if err != nil {
		return fmt.Errorf("fill %s: %w; it is begun again the next time", part, err)
	}
	if err := os.Rename(part, *path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %d runs, %d events of those that ended, in %s\n", *path, t.runs, t.events, time.Since(pr.began).Round(time.Second))
	return err
}

// progress shows how far a fill is: on a terminal in one line, else now and then in a new one.
type progress struct {
	w           io.Writer
	all         int
	began, said time.Time
	tty         bool
}

func newProgress(w io.Writer, all int) *progress {
	p := &progress{w: w, all: all, began: time.Now()}
	if f, ok := w.(*os.File); ok {
		i, err := f.Stat()
		p.tty = err == nil && i.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(t tally) {
	every, end := 15*time.Second, "\n"
	if p.tty {
		every, end = 200*time.Millisecond, "\x1b[K\r"
	}
	now := time.Now()
	if now.Sub(p.said) < every {
		return
	}
	p.said = now
	rate := float64(t.runs) / now.Sub(p.began).Seconds()
	left := time.Duration(float64(p.all-t.runs) / rate * float64(time.Second))
	fmt.Fprintf(p.w, "%d of %d runs, %d events, %.0f runs/s, %s left%s", t.runs, p.all, t.events, rate, left.Round(time.Second), end)
}

func (p *progress) end() {
	if p.tty {
		fmt.Fprint(p.w, "\x1b[K")
	}
}
