package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/ledger/leakscan"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/system"
)

type leakFlags struct {
	list    string   // file with a secret a line, - for stdin
	files   []string // NAME=FILE
	envs    []string
	noRules bool
}

func (a *app) leakscanCommand() *cobra.Command {
	var f leakFlags
	c := &cobra.Command{
		Use:   "leakscan",
		Short: "Searches every store for secrets, and says where one is",
		Long: `Searches for the secrets that you give, in every encoding that the redactor knows, and for
what looks like a credential by the redactor's rules: in every table of the database,
whether this version knows it or not; with --nats in every message of every stream. In an
embedded directory it searches every file byte by byte (the database's free pages and log,
the journal) for what you give, not by rules; what SQLite has deleted and kept over several
pages is not found where one ends. A finding says store, table, column, row, run and seq, the name under which
the secret was given or of the rule, and the fingerprint that markers show: never the
secret. Secrets are read from files, stdin or the environment, never from the command line.

Exit codes: 0 nothing found, 3 a secret that was given, 4 only what looks like one, 1 could
not be searched, 2 wrong usage.`,
		Example: `  ledgerctl leakscan --secret stripe=/run/secrets/stripe
  pass show all | ledgerctl leakscan --secrets - --no-rules
  ledgerctl leakscan --secret-env STRIPE_KEY --postgres URL --nats URL -o jsonl`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.leakscan(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.list, "secrets", "", "a file with a secret a line; - is stdin")
	fs.StringArrayVar(&f.files, "secret", nil, "NAME=FILE: what the file holds is a secret (several)")
	fs.StringArrayVar(&f.envs, "secret-env", nil, "the value of this environment variable is a secret (several)")
	fs.BoolVar(&f.noRules, "no-rules", false, "only what is given, not what looks like a credential")
	a.journalFlag(c)
	a.progressFlag(c)
	a.outputFlag(c, showFormats...)
	return c
}

// register makes the secrets known. No error repeats one.
func (f leakFlags) register(r *redact.Redactor, stdin io.Reader) (n int, err error) {
	add := func(name, value string) error {
		if strings.TrimSpace(value) == "" {
			return nil
		}
		n++
		return r.Register(name, value)
	}
	named, err := system.ReadSecrets(f.files)
	if err != nil {
		return 0, usageError{err}
	}
	for name, value := range named {
		if err := add(name, value); err != nil {
			return 0, err
		}
	}
	for _, name := range f.envs {
		value, ok := os.LookupEnv(name)
		if !ok || value == "" {
			return 0, usagef("--secret-env %s: it is not set", name)
		}
		if err := add(name, value); err != nil {
			return 0, err
		}
	}
	if f.list == "" {
		return n, nil
	}
	in := stdin
	if f.list != "-" {
		file, err := os.Open(f.list)
		if err != nil {
			return 0, fmt.Errorf("--secrets: %w", err)
		}
		defer func() { _ = file.Close() }() // only read
		in = file
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for i := 1; lines.Scan(); i++ {
		if err := add(fmt.Sprintf("line-%d", i), strings.TrimRight(lines.Text(), "\r")); err != nil {
			return 0, err
		}
	}
	return n, lines.Err()
}

type leakVerdict struct {
	Verdict string `json:"verdict"` // clean, found or suspected
	Given   int    `json:"given"`
	Rows    int64  `json:"rows"`  // of tables, and messages
	Bytes   int64  `json:"bytes"` // of files
	Secrets int64  `json:"secrets"`
	Looks   int64  `json:"looks"`
}

func (a *app) leakscan(ctx context.Context, f leakFlags) error {
	o := a.where()
	st, r, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // only read
	n, err := f.register(r, a.in)
	if err != nil {
		return err
	}
	if n == 0 && f.noRules {
		return usagef("nothing to search for: give --secrets, --secret or --secret-env, or leave --no-rules out")
	}
	own, ok := st.(interface{ DB() sqlstore.DB })
	if !ok {
		return errors.New("this ledger has no database to search")
	}
	var all []leakscan.Finding
	p := a.startProgress(ctx, "searching tables", "rows", 0)
	defer func() { p.Stop() }()
	s := &leakscan.Scanner{Redactor: r, Rules: !f.noRules}
	s.Found = func(x leakscan.Finding) error {
		if a.output == formatJSON {
			all = append(all, x)
			return nil
		}
		return p.Above(a.out, func(w io.Writer) error { return a.printLeak(w, x) })
	}
	s.Read = func(rows, _ int64) { p.Set(rows) }
	if err := s.Tables(ctx, own.DB()); err != nil {
		return err
	}
	p.Stop()
	if o.Embedded() {
		p = a.startProgress(ctx, "searching files", "bytes", leakscan.DirSize(o.Dir))
		s.Read = func(_, bytes int64) { p.Set(bytes) }
		if err := s.Dir(ctx, o.Dir); err != nil {
			return err
		}
		p.Stop()
	}
	if o.NATS != "" {
		p = a.startProgress(ctx, "searching streams", "messages", 0)
		before := s.Rows
		s.Read = func(rows, _ int64) { p.Set(rows - before) }
		err := system.ScanStreams(ctx, o.NATS, func(n uint64) { p.Total(int64(n)) }, func(m jetstream.Stored) error { //nolint:gosec // a count
			return s.Message(m.Stream, m.Subject, m.Sequence, m.Header, m.Data)
		})
		if err != nil {
			return r.Error(err)
		}
		p.Stop()
	}
	return a.printLeaks(leakVerdict{Given: n, Rows: s.Rows, Bytes: s.Bytes, Secrets: s.Secrets, Looks: s.Looks}, !f.noRules, all)
}

func (a *app) printLeak(w io.Writer, f leakscan.Finding) error {
	if a.output == formatJSONL {
		return a.jsonLine(f)
	}
	place := f.Store + " " + f.Name
	if f.Column != "" {
		place += "." + f.Column
	}
	if f.Row != "" {
		place += " " + f.Row
	}
	if !f.Run.IsZero() {
		place += " run " + f.Run.String()
	}
	if f.Seq > 0 {
		place += fmt.Sprintf(" seq %d", f.Seq)
	}
	_, err := fmt.Fprintf(w, "%s  %s: %s %s\n", a.term.paint(fmt.Sprintf("%-6s", f.How), red), clean(place), clean(f.Secret), f.Fingerprint)
	return err
}

func (a *app) printLeaks(v leakVerdict, rules bool, all []leakscan.Finding) error {
	var verdict error
	v.Verdict = "clean"
	switch {
	case v.Secrets > 0:
		v.Verdict = "found"
		verdict = verdictError{exitTampered, fmt.Sprintf("%s of secrets that were given: change these secrets now, then find out how they got there", plural(v.Secrets, "occurrence")), "leaked"}
	case v.Looks > 0:
		v.Verdict = "suspected"
		verdict = verdictError{exitIncomplete, fmt.Sprintf("%s that look like credentials: look at each; a value that its tool declares as an identity may look like one", plural(v.Looks, "value")), "suspected"}
	}
	switch a.output {
	case formatJSONL:
		return errors.Join(a.jsonLine(v), verdict)
	case formatJSON:
		if all == nil {
			all = []leakscan.Finding{}
		}
		return errors.Join(a.json(struct {
			leakVerdict
			Findings []leakscan.Finding `json:"findings"`
		}{v, all}), verdict)
	}
	st := green
	if v.Verdict != "clean" {
		st = red
	}
	by := ""
	if rules {
		by = "; the rules in the rows alone"
	}
	_, err := fmt.Fprintf(a.out, "%s: %s searched for in %s and %s of files%s\n", a.term.paint(v.Verdict, st), plural(int64(v.Given), "secret"),
		plural(v.Rows, "row"), thousands(v.Bytes)+" bytes", by)
	return errors.Join(err, verdict)
}
