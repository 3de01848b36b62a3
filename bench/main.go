// Command bench measures what Daybook costs, beside what the machine can do:
// raw JetStream publishes and raw PostgreSQL commits of the same run. Figures of
// two machines, or of two days, say little beside each other; the ratios do.
//
//	go run ./internal/testenv/cmd/withpostgres -disk -- go run ./bench
//
// It needs a PostgreSQL server in DAYBOOK_TEST_POSTGRES_URL whose data is on
// disk, and starts NATS servers of its own below -dir, which should be on the
// same disk. docs/performance.md explains the parts and the goals.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	goruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// part is one group of figures. It may use what an earlier part put into the
// report, if that one ran.
type part struct {
	name string
	what string
	run  func(ctx context.Context, b *bench) error
}

func parts() []part {
	return []part{
		{"raw", "what the machine can do: JetStream publishes, PostgreSQL commits", rawPart},
		{"calls", "durable tool calls through the whole runtime", callsPart},
		{"effects", "Begin and End alone, and Begin beside a projecting batch", effectsPart},
		{"projector", "rows the projector makes, beside COPY of the same rows", projectorPart},
		{"fold", "fold of a long history with its decisions", foldPart},
		{"queue", "no-op runs, enqueue to start, resume of a long run", queuePart},
		{"growth", "the same work in ever longer runs", growthPart},
		{"stored", "bytes that a turn stores in ever longer runs, with and without compaction", storedPart},
	}
}

// bench is what the parts share.
type bench struct {
	dsn    string
	dir    string
	time   time.Duration // of one measurement
	report *report
	cpu    processor
	log    io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var names []string
	help := "comma-separated parts, default all:"
	for _, p := range parts() {
		names = append(names, p.name)
		help += "\n  " + p.name + ": " + p.what
	}
	only := flags.String("parts", strings.Join(names, ","), help)
	each := flags.Duration("time", 5*time.Second, "how long one measurement lasts")
	output := flags.String("o", "table", "table or json")
	dir := flags.String("dir", "", "where the NATS servers keep their streams (default: a temporary directory)")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to `file`")
	if err := flags.Parse(args); err != nil {
		return 2, nil // Parse has said why
	}
	chosen := strings.Split(*only, ",")
	for _, c := range chosen {
		if !slices.Contains(names, c) {
			return 2, fmt.Errorf("no part %q: write one of %s", c, strings.Join(names, ", "))
		}
	}
	if *output != "table" && *output != "json" {
		return 2, fmt.Errorf("-o %q: want table or json", *output)
	}
	dsn := os.Getenv("DAYBOOK_TEST_POSTGRES_URL")
	if dsn == "" {
		return 2, errors.New("DAYBOOK_TEST_POSTGRES_URL is not set: run make bench, or withpostgres -disk -- go run ./bench")
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp(".", ".bench-") // the same disk as the work tree, not a memory file system
		if err != nil {
			return 1, err
		}
		defer func() { _ = os.RemoveAll(tmp) }()
		*dir = tmp
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return 1, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return 1, err
		}
		defer pprof.StopCPUProfile()
	}
	b := &bench{dsn: dsn, dir: *dir, time: *each, log: stderr, report: newReport(goruntime.NumCPU()), cpu: newProcessor(ctx, dsn)}
	for _, p := range parts() {
		if !slices.Contains(chosen, p.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(stderr, "bench: %s: %s\n", p.name, p.what)
		if err := p.run(ctx, b); err != nil {
			return 1, fmt.Errorf("part %s: %w", p.name, err)
		}
		fmt.Fprintf(stderr, "bench: %s took %s, load %s\n", p.name, time.Since(began).Round(time.Second), load())
	}
	return 0, b.report.write(stdout, *output)
}
