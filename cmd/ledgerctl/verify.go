package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

type findingView struct {
	Kind ledger.FindingKind `json:"kind"`
	Run  events.RunID       `json:"run"`
	Seq  uint64             `json:"seq,omitempty"` // none: the run as a whole
	Text string             `json:"text"`
}

type verdictView struct {
	Verdict    string `json:"verdict"` // whole, tampered or incomplete
	Runs       int64  `json:"runs"`
	Events     int64  `json:"events"`
	SetAside   int64  `json:"set_aside"`
	Pending    int64  `json:"pending"`
	Tampered   int64  `json:"tampered"`
	Incomplete int64  `json:"incomplete"`
}

func (a *app) verifyCommand() *cobra.Command {
	var exported, sum string
	var against bool
	c := &cobra.Command{
		Use:   "verify [RUN]",
		Short: "Proves that the record is whole, or names what is missing or changed",
		Long: `Checks every event of every run, or of one: its hash, its place in the chain, the
epochs, the columns beside it, what takeovers set aside, and that the tables made of
the events agree with them. A note is no fault.

The chain proves that nothing in it was changed, removed, moved or added. That the end
of a run still going on was not cut off, or the whole replaced, only a checkpoint kept
elsewhere could prove; signed checkpoints are not built yet.

With --export it checks what ledgerctl export wrote, and needs no ledger: each file against
the manifest, each event against its hash and the one before it, each run against its last
event, and calls against what the events fold to. --sha256 is the hash that export printed:
without it, or --against-ledger, an export of which all was made anew is not seen.

Exit codes: 0 whole, 3 tampered, 4 incomplete, 1 could not be checked, 2 wrong usage.`,
		Example: `  ledgerctl verify
  ledgerctl verify 7W6X5Y -o json
  ledgerctl verify --export audit-2026-11 --sha256 41bb…
  ledgerctl verify --export audit-2026-11 --against-ledger --postgres URL`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("one run, or none for all")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			switch {
			case exported != "" && len(args) > 0:
				return usagef("verify takes a RUN or --export, not both")
			case exported == "" && (sum != "" || against):
				return usagef("--sha256 and --against-ledger are of --export")
			case exported != "":
				return a.verifyExport(ctx, exported, sum, against)
			}
			return a.withLedger(ctx, func(st ledger.Store) error { return a.verify(ctx, st, args) })
		},
	}
	c.Flags().StringVar(&exported, "export", "", "checks this export instead of the ledger")
	c.Flags().StringVar(&sum, "sha256", "", "with --export: the hash of its manifest, as export printed it")
	c.Flags().BoolVar(&against, "against-ledger", false, "with --export: also whether the ledger has the last event of each run")
	a.progressFlag(c)
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) verify(ctx context.Context, st ledger.Store, args []string) error {
	var run events.RunID
	if len(args) == 1 {
		var err error
		if run, err = a.findRun(ctx, st, args[0]); err != nil {
			return err
		}
	}
	var all []findingView
	size, err := st.ExportSize(ctx, ledger.ExportFilter{Run: run})
	if err != nil {
		return err
	}
	p := a.startProgress(ctx, "verifying", "events", size.Events)
	defer p.Stop()
	report, err := st.VerifyWatched(ctx, run, p.Set, func(f ledger.Finding) error {
		v := findingView{f.Kind, f.Run, f.Seq, f.Text}
		if a.output == formatJSON {
			all = append(all, v)
			return nil
		}
		return p.Above(a.out, func(w io.Writer) error { return a.printFinding(w, v) })
	})
	p.Stop()
	if errors.Is(err, ledger.ErrNotFound) || err == nil && !run.IsZero() && report.Runs == 0 {
		return notThere(a.command("runs", "list"), "no run %s in this ledger: %s shows the newest", run, a.command("runs", "list"))
	}
	if err != nil {
		return err
	}
	return a.printVerdict(report, all)
}

func (a *app) printFinding(w io.Writer, v findingView) error {
	if a.output == formatJSONL {
		return a.jsonLine(v)
	}
	place := "run " + v.Run.String()
	if v.Run.IsZero() {
		place = "ledger"
	}
	if v.Seq > 0 {
		place += fmt.Sprintf(" seq %d", v.Seq)
	}
	_, err := fmt.Fprintf(w, "%s  %s: %s\n", a.term.paint(fmt.Sprintf("%-10s", v.Kind), stateStyle(string(v.Kind))), place, clean(v.Text))
	return err
}

func (a *app) printVerdict(r ledger.VerifyReport, all []findingView) error {
	v := verdictView{"whole", r.Runs, r.Events, r.SetAside, r.Pending, r.Tampered, r.Incomplete}
	var verdict error
	switch {
	case r.Tampered > 0:
		v.Verdict = string(ledger.Tampered)
		verdict = verdictError{exitTampered, fmt.Sprintf("tampered: %s; keep a copy of this database as it is and compare it with a backup", plural(r.Tampered, "finding")), ""}
	case r.Incomplete > 0:
		v.Verdict = string(ledger.Incomplete)
		verdict = verdictError{exitIncomplete, fmt.Sprintf("incomplete: %s; if workers or projectors are running, they may still be writing: verify again", plural(r.Incomplete, "finding")), ""}
	}
	var err error
	switch a.output {
	case formatJSON:
		if all == nil {
			all = []findingView{}
		}
		err = a.json(struct {
			verdictView
			Findings []findingView `json:"findings"`
		}{v, all})
	case formatJSONL:
		err = a.jsonLine(v)
	default:
		st := green
		if v.Verdict != "whole" {
			st = red
		}
		_, err = fmt.Fprintf(a.out, "%s: %s, %s, %d set aside, %s\n", a.term.paint(v.Verdict, st), plural(v.Runs, "run"), plural(v.Events, "event"), v.SetAside, plural(v.Pending, "pending fact"))
	}
	return errors.Join(err, verdict)
}
