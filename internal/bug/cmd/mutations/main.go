// Command mutations runs the tests against every seeded bug of internal/bug and
// prints which layer of the test programme found it. It fails if a bug survives
// the tests that must find it, or if a test fails without a bug.
//
//	go run ./internal/bug/cmd/mutations
//	go run ./internal/bug/cmd/mutations -bugs early_probe,no_fence
//	go run ./internal/bug/cmd/mutations -all       # every layer against every bug
//	go run ./internal/bug/cmd/mutations -quick     # a few bugs, the quickest layer of each
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/internal/bug"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("bugs", "", "comma-separated bugs; default all")
	all := flag.Bool("all", false, "run every layer against every bug, not only those that must find it")
	few := flag.Bool("quick", false, "only the bugs that are found fast, each by the first of its layers; what CI runs")
	limit := flag.Duration("timeout", 75*time.Second, "how long a layer may take with a bug; a test that hangs has found it")
	flag.Parse()
	bugs, err := chosen(*only)
	if err != nil {
		return err
	}
	if *few {
		if *all || *only != "" {
			return errors.New("-quick goes with neither -all nor -bugs")
		}
		bugs = foundFast
	}
	dir, err := os.MkdirTemp("", "daybook-mutations-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := runner{dir: dir, limit: *limit, built: map[string]string{}, all: *all, first: *few}
	if err := r.control(bugs); err != nil {
		return err
	}
	return r.mutate(bugs)
}

// chosen are the bugs that the flag names.
func chosen(names string) ([]bug.Bug, error) {
	if names == "" {
		return bug.All(), nil
	}
	var bs []bug.Bug
	for n := range strings.SplitSeq(names, ",") {
		b := bug.Bug(strings.TrimSpace(n))
		if !slices.Contains(bug.All(), b) {
			return nil, fmt.Errorf("there is no bug %q; see internal/bug/bug.go", b)
		}
		bs = append(bs, b)
	}
	return bs, nil
}

// layersOf are the layers to run against a bug.
func (r *runner) layersOf(b bug.Bug) []string {
	switch {
	case r.first:
		return findable[b][:1]
	case !r.all:
		return findable[b]
	}
	var names []string
	for _, l := range layers {
		names = append(names, l.name)
	}
	return names
}

// runner builds test binaries once and runs them.
type runner struct {
	dir   string
	limit time.Duration
	built map[string]string // package → binary
	all   bool              // every layer
	first bool              // the first of those that must find a bug
}

func (r *runner) binary(pkg string) (string, error) {
	if b, ok := r.built[pkg]; ok {
		return b, nil
	}
	out := filepath.Join(r.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	cmd := exec.Command("go", "test", "-c", "-tags", "daybook_bugs", "-o", out, "./"+pkg)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w", pkg, err)
	}
	r.built[pkg] = out
	return out, nil
}

// failedTest is the name of the first test that failed.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs one layer with a bug, or without one, and returns the test that
// failed, empty for none.
func (r *runner) test(l layer, b bug.Bug) (failed string, out []byte, err error) {
	bin, err := r.binary(l.pkg)
	if err != nil {
		return "", nil, err
	}
	limit := max(r.limit, l.limit)
	if b == "" {
		limit *= 5 // the machine may be busy, and here nothing may fail
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	args := append([]string{"-test.failfast", "-test.count=1", "-test.run", l.tests}, l.args...)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = filepath.FromSlash(l.pkg)
	cmd.Env = append(os.Environ(), "DAYBOOK_BUG="+string(b))
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return "", out, fmt.Errorf("layer %s has no tests: %s in %s", l.name, l.tests, l.pkg)
	case err == nil:
		return "", out, nil
	case ctx.Err() != nil:
		return "(not done within " + limit.String() + ")", out, nil
	case !errors.As(err, &exit):
		return "", out, err
	}
	failed = "(panic)"
	for _, m := range failedTest.FindAllSubmatch(out, -1) { // the innermost comes last
		failed = string(m[1])
	}
	return failed, out, nil
}

// control runs every layer that is used, without a bug.
func (r *runner) control(bugs []bug.Bug) error {
	used := map[string]bool{}
	for _, b := range bugs {
		if len(findable[b]) == 0 {
			return fmt.Errorf("no layer is said to find %s; add it to findable", b)
		}
		for _, name := range r.layersOf(b) {
			used[name] = true
		}
	}
	for _, l := range layers {
		if used[l.name] {
			if _, err := r.binary(l.pkg); err != nil {
				return err
			}
		}
	}
	for _, l := range layers {
		if !used[l.name] {
			continue
		}
		began := time.Now()
		failed, out, err := r.test(l, "")
		switch {
		case err != nil:
			return err
		case failed != "":
			return fmt.Errorf("without a bug %s of layer %s fails:\n%s", failed, l.name, out[max(0, len(out)-4000):])
		}
		fmt.Printf("%-11s %-14s passes without a bug, in %s\n", l.name, l.pkg, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// mutate runs the layers against the bugs and prints the table.
func (r *runner) mutate(bugs []bug.Bug) error {
	var survived []string
	const row = "%-31s %-27s %5s  %s\n"
	fmt.Printf("\n"+row, "bug", "found by", "took", "first test that failed")
	for _, b := range bugs {
		began := time.Now()
		var found []string
		first := ""
		for _, name := range r.layersOf(b) {
			i := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
			if i < 0 {
				return fmt.Errorf("%s: there is no layer %q", b, name)
			}
			failed, _, err := r.test(layers[i], b)
			switch {
			case err != nil:
				return err
			case failed != "":
				found = append(found, name)
				if first == "" {
					first = path.Base(layers[i].pkg) + " " + failed
				}
			case !r.all:
				found = append(found, "NOT "+name)
				survived = append(survived, string(b)+" survived "+name)
			}
		}
		if r.all && first == "" {
			survived = append(survived, string(b)+" survived everything")
		}
		fmt.Printf(row, b, strings.Join(found, ", "), time.Since(began).Round(time.Second), first)
	}
	if len(survived) > 0 {
		return fmt.Errorf("the tests let bugs live:\n  %s", strings.Join(survived, "\n  "))
	}
	fmt.Printf("\nall %d bugs were found\n", len(bugs))
	return nil
}
