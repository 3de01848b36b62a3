package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/system"
)

// journalFlag adds --nats to a command that reads the journal.
func (a *app) journalFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.opts.NATS, "nats", env("DAYBOOK_NATS_URL", ""), "distributed: NATS URL (DAYBOOK_NATS_URL)")
}

// withJournal runs f on the open ledger and its journal. An embedded directory
// must have no worker meanwhile.
func (a *app) withJournal(ctx context.Context, f func(ledger.Store, events.Reader) error) error {
	o := a.where()
	o.NoWait = true
	o.Logger = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelError}))
	sys, err := system.Open(ctx, o)
	switch {
	case errors.Is(err, system.ErrOptions):
		return usageError{err}
	case errors.Is(err, system.ErrDirInUse):
		return fmt.Errorf("stop the worker of this directory first: %w", err)
	case err != nil:
		return err
	}
	defer sys.Close()
	return f(sys.Store, sys.Bus.Consumer())
}

func (a *app) reconcileCommand() *cobra.Command {
	var acts bool
	var f acting
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Gives a restored database what its journal still knows",
		Long: `After the database was restored from a backup, or a replica that lagged was promoted,
it lacks what was committed since: effects that have happened, runs, events. Workers
notice and refuse to go on. This command reads the whole journal and puts back what it
tells of: runs that had begun, the bases of epochs, events, and every destructive call,
with its outcome if the journal has it, else in doubt. Then it raises the epoch of every
run, so that no worker of before can act, and lets the workers go on.

Stop the workers first if you can. Doing it again changes nothing; if it is interrupted,
do it again. What only the database knew is lost: runs that no worker had taken,
approvals and budgets since the backup, and what was trimmed from the journal (after
72 hours, unless set otherwise). See docs/operations.md.
` + whoActs + `

Exit codes: 0 reconciled, or nothing was missing; 1 failed, or not everything could be
put back; 2 wrong usage.`,
		Example: `  ledgerctl reconcile --dry-run --postgres URL --nats nats://127.0.0.1:4222
  ledgerctl reconcile --postgres URL --nats nats://127.0.0.1:4222
  ledgerctl reconcile --acts                # who did, and when
  ledgerctl indoubt                         # what a person must look at now`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if acts {
				return a.listActs(ctx, "ledger", "journal", "nobody has reconciled this ledger")
			}
			return a.withJournal(ctx, func(st ledger.Store, journal events.Reader) error {
				by, err := a.actor(ctx, st, f)
				if err != nil {
					return err
				}
				read, err := a.countMessages(ctx, "reading the journal", journal)
				if err != nil {
					return err
				}
				if !a.dry {
					read.p.Total(2 * read.p.total.Load()) // once to find what is missing, once to put it back
				}
				r, err := ledger.Reconcile(ctx, st, read, a.dry)
				read.p.Stop()
				if err != nil {
					return err
				}
				if !a.dry {
					err = st.KeepAct(ctx, ledger.Act{Kind: "ledger", Name: "journal", Verb: "reconcile", By: by, Detail: fmt.Sprintf(
						"put back %s, %s, %s; raised the epochs of %s", plural(int64(r.Events), "event"), plural(int64(len(r.Runs)), "run"),
						plural(int64(len(r.Effects)), "effect"), plural(r.Raised, "run"))})
				}
				return errors.Join(err, a.printReconciled(r, a.dry))
			})
		},
	}
	c.Flags().BoolVar(&acts, "acts", false, "lists who reconciled it, latest first")
	f.person(c)
	a.journalFlag(c)
	a.progressFlag(c)
	a.outputFlag(c, showFormats...)
	a.changesItself(c)
	return c
}

// lostView is one thing that the database lacked.
type lostView struct {
	What   string       `json:"what"` // run, effect, history or fork
	Run    events.RunID `json:"run"`
	Name   string       `json:"name,omitempty"` // agent, or tool and call
	OpKey  string       `json:"op_key,omitempty"`
	State  string       `json:"state"`
	Detail string       `json:"detail,omitempty"`
}

type reconciledView struct {
	DryRun   bool       `json:"dry_run"`
	Held     string     `json:"held,omitempty"`
	Messages int        `json:"messages"`
	Events   int        `json:"events"`
	Epochs   int        `json:"epochs"`
	Raised   int64      `json:"raised"`
	InDoubt  int        `json:"in_doubt"`
	Lost     []lostView `json:"lost"`
	failed   int
}

func (a *app) reconciledView(r ledger.Reconciled, dry bool) reconciledView {
	v := reconciledView{DryRun: dry, Held: r.Held, Messages: r.Messages, Events: r.Events, Epochs: r.Epochs, Raised: r.Raised, Lost: []lostView{}}
	for _, run := range r.Runs {
		l := lostView{What: "run", Run: run.ID, State: "put back", Detail: run.Detail}
		switch {
		case run.Queued == nil:
			l.State, l.Detail = "gone", "the journal does not have its beginning any more: it cannot be put back"
			v.failed++
		case dry:
			l.State = "missing"
		}
		if run.Queued != nil {
			l.Name = run.Queued.Agent
		}
		v.Lost = append(v.Lost, l)
	}
	for _, e := range r.Effects {
		l := lostView{What: "effect", Run: e.Run, Name: e.Tool + " " + e.Call.String(), OpKey: shortKey(e.Ref.OpKey), State: string(e.State)}
		switch {
		case e.Err != nil:
			l.State, l.Detail = "gone", "it has begun, and its run cannot be put back: look where it would have taken effect"
			v.failed++
		case dry && e.Outcome == nil:
			l.State, l.Detail = "missing", "will be in doubt"
		case dry:
			l.State, l.Detail = "missing", "will be "+string(e.Outcome.State)
		case e.State == events.EffectInDoubt:
			v.InDoubt++
		}
		v.Lost = append(v.Lost, l)
	}
	for _, run := range r.Forked {
		v.failed++
		v.Lost = append(v.Lost, lostView{
			What: "fork", Run: run, State: "kept apart",
			Detail: "it went on another way after the restore: its history stays as the database has it, its effects are listed above",
		})
	}
	return v
}

func (a *app) printReconciled(r ledger.Reconciled, dry bool) error {
	v := a.reconciledView(r, dry)
	var failed error
	if v.failed > 0 && !dry {
		failed = fmt.Errorf("%s could not be put back as it was; the table says which", plural(int64(v.failed), "thing"))
	}
	if a.output != formatTable {
		return errors.Join(a.json(v), failed)
	}
	if v.Held != "" {
		fmt.Fprintf(a.out, "Workers were held back: %s.\n", clean(v.Held))
	}
	if len(v.Lost) > 0 {
		err := table(a.out, a.term, v.Lost, []column[lostView]{
			{name: "what", text: func(l lostView) string { return l.What }},
			{name: "run", text: func(l lostView) string { return l.Run.String() }, keep: true},
			{name: "name", text: func(l lostView) string { return l.Name }},
			{name: "op_key", text: func(l lostView) string { return l.OpKey }, keep: true},
			{name: "state", text: func(l lostView) string { return l.State }, style: func(l lostView) style { return stateStyle(l.State) }},
			{name: "detail", text: func(l lostView) string { return l.Detail }, want: 40},
		})
		if err != nil {
			return err
		}
	}
	var err error
	switch {
	case r.Clean():
		_, err = fmt.Fprintf(a.out, "Nothing is missing: the database has everything of the %s in the journal.\n", plural(int64(v.Messages), "message"))
	case dry:
		_, err = fmt.Fprintf(a.out, "Missing: %s, %s, %s and the bases of %s. Nothing was changed: run %s.\n", plural(int64(v.Events), "event"),
			plural(int64(len(r.Runs)), "run"), plural(int64(len(r.Effects)), "effect"), plural(int64(v.Epochs), "epoch"), a.command("reconcile"))
	default:
		_, err = fmt.Fprintf(a.out, "Put back: %s, %s, %s and the bases of %s. The epochs of %s were raised: workers of before are fenced.\n", plural(int64(v.Events), "event"),
			plural(int64(len(r.Runs)), "run"), plural(int64(len(r.Effects)), "effect"), plural(int64(v.Epochs), "epoch"), plural(v.Raised, "run"))
	}
	if v.InDoubt > 0 {
		fmt.Fprintf(a.out, "%s in doubt: %s\n", plural(int64(v.InDoubt), "effect"), a.command("indoubt"))
	}
	return errors.Join(err, failed)
}
