package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// annChanges marks a command that changes state.
const annChanges = "changes"

// changes adds --dry-run and --yes to a command that changes the ledger. In a dry run
// the ledger that the command opens keeps nothing: it does and checks what it would,
// and says so behind "dry run:".
func (a *app) changes(c *cobra.Command) {
	a.changesItself(c)
	inner := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if inner != nil {
			if err := inner(c, args); err != nil {
				return err
			}
		}
		if a.dry && a.output == formatTable {
			a.out = &prefixed{to: a.out, prefix: "dry run: "}
		}
		return nil
	}
}

// changesItself is changes for a command that itself leaves out what it would do.
func (a *app) changesItself(c *cobra.Command) {
	mark(c, annChanges, "true")
	c.Flags().BoolVar(&a.dry, "dry-run", false, "says what would be done, and changes nothing")
	c.Flags().BoolVar(&a.yes, "yes", false, "does not ask, also before what cannot be taken back")
	inner := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		a.opts.DryRun = a.dry
		if inner != nil {
			return inner(c, args)
		}
		return nil
	}
}

// confirm asks a person at a terminal before what cannot be taken back. Without one
// it refuses: nobody is there to ask.
func (a *app) confirm(what string) error {
	if a.yes || a.dry {
		return nil
	}
	if a.ask == nil {
		return usagef("nothing was done: %s cannot be taken back; say --yes, or --dry-run to see what it would be", what)
	}
	fmt.Fprintf(a.err, "%s cannot be taken back. Type yes to go on: ", clean(upperFirst(what)))
	answers := make(chan string, 1)
	go func() { answers <- a.ask() }() // an interrupt does not wait for a line: it ends the program
	select {
	case answer := <-answers:
		if strings.TrimSpace(answer) != "yes" {
			return usagef("nothing was done: the answer was not yes")
		}
		return nil
	case <-a.context().Done():
		return a.context().Err()
	}
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// askerOf reads a line from in if a person is there to type it, and to read the question.
func askerOf(in io.Reader, stderr io.Writer) func() string {
	i, isFile := in.(*os.File)
	e, isErr := stderr.(*os.File)
	if !isFile || !isErr || terminalOf(i).width == 0 || terminalOf(e).width == 0 {
		return nil
	}
	return func() string {
		var line []byte
		b := make([]byte, 1)
		for len(line) < 100 {
			n, err := i.Read(b)
			if n == 1 && b[0] == '\n' || err != nil {
				break
			}
			line = append(line, b[:n]...)
		}
		return string(line)
	}
}

// prefixed puts a prefix before each line.
type prefixed struct {
	to     io.Writer
	prefix string
	inLine bool
}

func (p *prefixed) Write(b []byte) (int, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		if !p.inLine {
			out.WriteString(p.prefix)
		}
		out.Write(line)
		p.inLine = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := p.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}
