package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/system"
)

// Outcomes of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
)

// checkView is one thing that was looked at.
type checkView struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning or failed
	Found  string `json:"found"`
	// Promise is what it means for which promise; Do is what to type or set. Both are
	// empty if it is ok.
	Promise string `json:"promise,omitempty"`
	Do      string `json:"do,omitempty"`
}

// The promises of DESIGN.md, in short.
const (
	promiseOnce  = "1: a destructive call takes effect at most once"
	promiseDoubt = "2: what nobody can know is said"
	promiseLost  = "3: an accepted run is never lost"
	promiseSafe  = "4: nothing unredacted leaves the process"
	promiseMoney = "5: money adds up"
	promiseProof = "6: the ledger can prove itself"
)

// doctor collects what is found.
type doctor struct {
	a      *app
	r      *redact.Redactor
	checks []checkView
}

func (d *doctor) ok(check, format string, args ...any) {
	d.checks = append(d.checks, checkView{Check: check, Status: checkOK, Found: d.r.String(fmt.Sprintf(format, args...))})
}

func (d *doctor) bad(status, check, promise, do, format string, args ...any) {
	d.checks = append(d.checks, checkView{check, status, d.r.String(fmt.Sprintf(format, args...)), promise, do})
}

func (a *app) doctorCommand() *cobra.Command {
	var seal string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Checks servers, settings, clocks, permissions and keys, and says what to do",
		Long: `Looks at everything that the promises rest on and says of each thing what was found, which
promise it puts at risk, and what to type or set: PostgreSQL (version, fsync and its kin, schema, what
the role may do, connections, long transactions, slots, clock) or the embedded directory
(write-ahead log, permissions, disk, worker), NATS (JetStream, streams, replicas, sync,
clock), keys, leases, and how far projectors are behind. It changes nothing.

Exit codes: 0 all is well, 4 warnings, 3 something is broken, 2 wrong usage.`,
		Example: `  ledgerctl doctor --postgres URL --nats URL --nats-sync always
  ledgerctl doctor --dir DIR -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), seal) },
	}
	c.Flags().StringVar(&seal, "seal-key", env("DAYBOOK_SEAL_KEY_FILE", ""), "the workers' key file, to be checked (DAYBOOK_SEAL_KEY_FILE)")
	c.Flags().StringVar(&a.opts.Sync, "nats-sync", env("DAYBOOK_NATS_SYNC", ""), "what you assert of NATS: always or interval (DAYBOOK_NATS_SYNC)")
	a.journalFlag(c)
	listFlags[checkView](a, c)
	return c
}

func (a *app) doctor(ctx context.Context, seal string) error {
	o := a.where()
	d := &doctor{a: a, r: redact.New(redact.Config{})}
	for _, where := range []string{o.Postgres, o.NATS} {
		for one := range strings.SplitSeq(where, ",") {
			if u, err := url.Parse(strings.TrimSpace(one)); err == nil && u.User != nil {
				if p, ok := u.User.Password(); ok {
					_ = d.r.Register("password", p) // what is too short is not shown either: URLs never are
				}
			}
		}
	}
	if err := d.database(ctx, o, seal); err != nil {
		return err
	}
	if !o.Embedded() {
		d.nats(ctx, o)
	}
	err := list(a, d.checks, doctorColumns, "nothing was checked")
	if a.output == formatTable && !a.machine && a.term.width > 0 {
		d.inFull()
	}
	failed, warned := 0, 0
	for _, c := range d.checks {
		switch c.Status {
		case checkFailed:
			failed++
		case checkWarning:
			warned++
		}
	}
	switch {
	case failed > 0:
		return errors.Join(err, verdictError{exitTampered, fmt.Sprintf("%s failed, %s: do what stands beside them", plural(int64(failed), "check"), plural(int64(warned), "warning")), "broken"})
	case warned > 0:
		return errors.Join(err, verdictError{exitIncomplete, plural(int64(warned), "warning"), "warnings"})
	}
	return err
}

// inFull says what a table on a terminal had to cut.
func (d *doctor) inFull() {
	for _, c := range d.checks {
		if c.Status == checkOK {
			continue
		}
		fmt.Fprintf(d.a.out, "\n%s: %s\n", d.a.term.paint(c.Check, bold), clean(c.Found))
		if c.Promise != "" {
			fmt.Fprintf(d.a.out, "  puts at risk %s\n", c.Promise)
		}
		fmt.Fprintf(d.a.out, "  do: %s\n", clean(c.Do))
	}
}

var doctorColumns = []column[checkView]{
	{name: "check", keep: true, text: func(c checkView) string { return c.Check }},
	{name: "status", keep: true, text: func(c checkView) string { return c.Status }, style: func(c checkView) style {
		return map[string]style{checkOK: green, checkWarning: yellow, checkFailed: red}[c.Status]
	}},
	{name: "found", want: 40, text: func(c checkView) string { return c.Found }},
	{name: "promise", want: 16, drop: 1, text: func(c checkView) string { return c.Promise }},
	{name: "do", want: 30, text: func(c checkView) string { return c.Do }},
}

// database checks what keeps the ledger. The error is one of usage alone.
func (d *doctor) database(ctx context.Context, o system.Options, seal string) error {
	name := "postgres"
	place := "PostgreSQL at " + system.Place(o.Postgres)
	if o.Embedded() {
		name, place = "sqlite", "SQLite in "+o.Dir
	}
	st, err := system.OpenUnchecked(ctx, o)
	if errors.Is(err, system.ErrOptions) {
		return usageError{err}
	}
	if err == nil {
		defer func() { _ = st.Close() }() // only read
		err = d.reach(ctx, st)
	}
	if err != nil {
		d.bad(checkFailed, name, promiseLost, "start it, or give its right place and password", "%s cannot be asked: %v", place, d.r.Error(err))
		return nil
	}
	d.ok(name, "%s answers", place)
	d.settings(ctx, o, st)
	if d.schema(ctx, st) {
		d.state(ctx, st)
		d.keys(ctx, st, seal)
	}
	return nil
}
