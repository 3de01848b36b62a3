package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *app) rebuildCommand() *cobra.Command {
	var only bool
	c := &cobra.Command{
		Use:   "rebuild [RUN]",
		Short: "Makes the tables that are folded from the events again",
		Long: `Adds to the events what the journal has and the database has not, then drops the rows of
tool calls, model calls, artifacts and summaries of a run, or of all, and folds them
again. What is asked meanwhile sees a run folded less far, never wrongly. Workers may run,
except in an embedded directory. With --archive-only the journal is left out. Nothing of
the record is lost, but what is folded is dropped first: at a terminal it asks.`,
		Example: `  ledgerctl rebuild 7W6X5Y --postgres URL --nats nats://127.0.0.1:4222
  ledgerctl rebuild --archive-only`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("one run, or none for all")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if a.ask != nil {
				if err := a.confirm("that the folded tables are dropped and made again"); err != nil {
					return err
				}
			}
			if only {
				return a.withLedger(ctx, func(st ledger.Store) error { return a.rebuild(ctx, st, nil, args) })
			}
			return a.withJournal(ctx, func(st ledger.Store, journal events.Reader) error { return a.rebuild(ctx, st, journal, args) })
		},
	}
	c.Flags().BoolVar(&only, "archive-only", false, "does not read the journal")
	a.journalFlag(c)
	a.progressFlag(c)
	a.outputFlag(c, showFormats...)
	a.changesItself(c)
	return c
}

type rebuiltView struct {
	Run      *events.RunID `json:"run,omitempty"` // none: all
	Messages int           `json:"messages"`
	Added    int           `json:"added"`
	Whole    bool          `json:"whole"`
}

func (a *app) rebuild(ctx context.Context, st ledger.Store, journal events.Reader, args []string) error {
	var v rebuiltView
	var run events.RunID
	if len(args) == 1 {
		var err error
		if run, err = a.findRun(ctx, st, args[0]); err != nil {
			return err
		}
		v.Run = &run
	}
	if a.dry {
		return a.wouldRebuild(ctx, st, journal, run)
	}
	if journal != nil {
		read, err := a.countMessages(ctx, "reading the journal", journal)
		if err != nil {
			return err
		}
		up, err := ledger.TopUp(ctx, st, read, run)
		read.p.Stop()
		if err != nil {
			return err
		}
		v.Messages, v.Added = up.Messages, up.Events
	}
	size, err := st.ExportSize(ctx, ledger.ExportFilter{Run: run})
	if err != nil {
		return err
	}
	p := a.startProgress(ctx, "rebuilding", "events", size.Events)
	err = st.RebuildWatched(ctx, run, p.Set)
	p.Stop()
	if err != nil {
		return err
	}
	p = a.startProgress(ctx, "verifying", "events", size.Events)
	report, err := st.VerifyWatched(ctx, run, p.Set, func(ledger.Finding) error { return nil })
	p.Stop()
	if err != nil {
		return err
	}
	v.Whole = report.Tampered == 0 && report.Incomplete == 0
	var bad error
	if !v.Whole {
		bad = fmt.Errorf("rebuilt, and not whole: %s says what is wrong", a.command(append([]string{"verify"}, args...)...))
	}
	if a.output != formatTable {
		return errors.Join(a.json(v), bad)
	}
	_, err = fmt.Fprintf(a.out, "rebuilt %s; %s added from %s of the journal\n", plural(report.Runs, "run"), plural(int64(v.Added), "event"), plural(int64(v.Messages), "message"))
	return errors.Join(err, bad)
}

// wouldRebuildView says what a rebuild would do.
type wouldRebuildView struct {
	DryRun bool          `json:"dry_run"`
	Run    *events.RunID `json:"run,omitempty"` // none: all
	Runs   int64         `json:"runs"`
	Events int64         `json:"events"`
	// Missing are events that the journal has and the database has not, of any run;
	// nil = the journal was not read.
	Missing  *int  `json:"missing"`
	Findings int64 `json:"findings"` // of verify, now
}

func (a *app) wouldRebuild(ctx context.Context, st ledger.Store, journal events.Reader, run events.RunID) error {
	report, err := st.Verify(ctx, run, func(ledger.Finding) error { return nil })
	if err != nil {
		return err
	}
	v := wouldRebuildView{DryRun: true, Runs: report.Runs, Events: report.Events, Findings: report.Tampered + report.Incomplete}
	if !run.IsZero() {
		v.Run = &run
	}
	if journal != nil {
		lacks, err := ledger.Reconcile(ctx, st, journal, true)
		if err != nil {
			return err
		}
		v.Missing = &lacks.Events
	}
	if a.output != formatTable {
		return a.json(v)
	}
	fmt.Fprintf(a.out, "dry run: the rows folded of %s would be dropped and made again from %s\n", plural(v.Runs, "run"), plural(v.Events, "event"))
	if v.Missing != nil {
		fmt.Fprintf(a.out, "dry run: the journal has %s of runs that the database lacks, which would be added first\n", plural(int64(*v.Missing), "event"))
	}
	_, err = fmt.Fprintf(a.out, "dry run: verify finds %s as it is\n", plural(v.Findings, "fault"))
	return err
}
