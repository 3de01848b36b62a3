package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/examples/research/standin"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/system"
)

// show prints what came of it, and asks the ledger as anybody can.
func (s *supervisor) show(ctx context.Context) error {
	for _, r := range s.runs {
		fmt.Fprintf(s.out, "\nRun %s %s:\n\n%s\n", r.Run, r.State, indent(r.Answer))
	}
	notices, err := standin.ReadBoard(s.path("board.jsonl"))
	if err != nil {
		return err
	}
	asked := s.world.Asked()
	fmt.Fprintf(s.out, "\nRequests as the services counted them: web search %d, OpenAlex %d, Semantic Scholar %d, notice board %d.\nOn the notice board: %d.\n",
		asked["searxng"], asked["openalex"], asked["semantic_scholar"], asked["board"], len(notices))
	if err := s.pictures(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nThe same from the ledger, with what you can type yourself:\n")
	for _, q := range s.queries() {
		if err := s.query(ctx, q...); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "\nAll of it is kept in %s. The call that the worker died in:\n\n$ %s\n", s.dir, s.command("calls", "show", s.runs[0].Run+"/t5.c2"))
	for _, r := range s.runs {
		if r.State != string(ledger.Finished) {
			return fmt.Errorf("run %s has %s", r.Run, r.State)
		}
	}
	if len(notices) != 1 {
		return fmt.Errorf("%d reports were published, of one: this is a bug in Daybook", len(notices))
	}
	return nil
}

// pictures draws the runs, from the ledger.
func (s *supervisor) pictures(ctx context.Context) (err error) {
	st, _, err := system.OpenLedger(ctx, system.Options{Dir: s.dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for _, r := range s.runs {
		if err := s.picture(ctx, st, r.Run); err != nil {
			return err
		}
	}
	return nil
}

// queries are what is asked of the ledger.
func (s *supervisor) queries() [][]string {
	qs := [][]string{{"runs", "list"}}
	for _, r := range s.runs {
		qs = append(qs, []string{"calls", "list", "--run", r.Run})
	}
	return append(qs, []string{"calls", "sources", s.runs[0].Run}, []string{"costs", "--by", "run"}, []string{"verify"})
}

// query prints a command and what it says.
func (s *supervisor) query(ctx context.Context, words ...string) error {
	line := s.command(words...)
	fmt.Fprintf(s.out, "\n$ %s\n", line)
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Stdout, c.Stderr = s.out, s.out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return nil
}

// command is a command line of ledgerctl's.
func (s *supervisor) command(words ...string) line {
	return slices.Concat(s.ledgerctl, []string{"--dir", s.dir}, words)
}

type line []string

// String is what to type; a directory may have blanks in its name.
func (l line) String() string {
	quoted := make([]string, len(l))
	for i, w := range l {
		if quoted[i] = w; strings.ContainsAny(w, " '\"\\$`&|;<>()*?[]#~") {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// ledgerctl is how to start it, by how this program was started: with go run, or
// as a binary that has its friend in the PATH.
func ledgerctl() []string {
	self, err := os.Executable()
	if err == nil && !strings.Contains(self, string(filepath.Separator)+"go-build") {
		return []string{"ledgerctl"}
	}
	if _, err := os.Stat("cmd/ledgerctl"); err == nil {
		return []string{"go", "run", "./cmd/ledgerctl"}
	}
	return []string{"go", "run", "github.com/daybookhq/daybook/cmd/ledgerctl"}
}
