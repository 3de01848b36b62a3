// Command testsummary turns the output of one or more runs of go test -json into
// what a person wants to read: a line per package, the full output of what
// failed, why tests were skipped, and at the end how many passed. It exits 1 if
// anything failed or nothing ran.
//
//	go test -json ./... | go run ./internal/testenv/cmd/testsummary
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	s := &summary{out: os.Stdout, output: map[test]*strings.Builder{}, builds: map[string]*strings.Builder{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	if !s.close() {
		os.Exit(1)
	}
}

// An event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	ImportPath, FailedBuild       string
}

type test struct{ pkg, name string }

type summary struct {
	out    io.Writer
	output map[test]*strings.Builder // of tests, and packages as "", that have not ended
	builds map[string]*strings.Builder

	passed, failed int
	skipped        []string
	redTests       map[string]bool // packages with a failed test of their own
}

func (s *summary) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				e = event{Action: "output", Output: string(line)} // not of go test
			}
			s.add(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) add(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		builder(s.builds, e.ImportPath).WriteString(e.Output)
	case "build-fail":
		s.print(builder(s.builds, e.ImportPath).String())
	case "output":
		if e.Package == "" {
			s.print(e.Output)
		} else if e.Output != "PASS\n" && !strings.Contains(e.Output, "[no test files]") {
			builder(s.output, key).WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
		} else {
			s.endTest(e.Action, key)
		}
	}
}

func (s *summary) endTest(action string, key test) {
	switch action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped = append(s.skipped, fmt.Sprintf("%s %s: %s", key.pkg, key.name, reason(builder(s.output, key).String())))
	case "fail":
		s.failed++
		if s.redTests == nil {
			s.redTests = map[string]bool{}
		}
		s.redTests[key.pkg] = true
		s.print(builder(s.output, key).String())
	}
	delete(s.output, key)
}

// endPackage shows what hung or died with its package, and counts a package
// that failed without a failed test: one that did not build, or a leak found
// after the tests.
func (s *summary) endPackage(e event) {
	own := test{pkg: e.Package}
	for line := range strings.Lines(builder(s.output, own).String()) {
		// The seed is wanted only to repeat a failure.
		if e.Action == "fail" || !strings.HasPrefix(line, "-test.shuffle ") {
			s.print(line)
		}
	}
	delete(s.output, own)
	for key, b := range s.output {
		if key.pkg != e.Package {
			continue
		}
		if e.Action == "fail" {
			s.print(b.String())
		}
		delete(s.output, key)
	}
	if e.Action == "fail" && !s.redTests[e.Package] {
		s.failed++
	}
}

// close prints the end and says whether all is well.
func (s *summary) close() bool {
	if len(s.skipped) > 0 {
		s.print("\nskipped:\n  " + strings.Join(s.skipped, "\n  ") + "\n")
	}
	s.print(fmt.Sprintf("\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped)))
	return s.failed == 0 && s.passed > 0
}

func (s *summary) print(text string) { _, _ = io.WriteString(s.out, text) }

// reason is what a test said before it was skipped.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return "no reason given"
}

func builder[K comparable](m map[K]*strings.Builder, key K) *strings.Builder {
	if m[key] == nil {
		m[key] = new(strings.Builder)
	}
	return m[key]
}
