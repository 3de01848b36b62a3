package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// explanation says in sentences why a run or a call is where it is, and what
// can be done next. Below them is the same in fields, for scripts.
type explanation struct {
	Run   events.RunID `json:"run"`
	Call  string       `json:"call,omitempty"`
	State string       `json:"state"`
	Why   []string     `json:"why"`
	Next  []next       `json:"next"`

	Details   *runView       `json:"details,omitempty"`   // of the run, without its input
	Handoffs  []handoffView  `json:"handoffs,omitempty"`  // awaited
	Children  []relativeView `json:"children,omitempty"`  // that did not finish
	Approvals []approvalView `json:"approvals,omitempty"` // that nobody has decided
	Switches  []switchView   `json:"switches,omitempty"`  // that stop the run
	Queue     *queueView     `json:"queue,omitempty"`     // of a run that waits in it
	Holders   []relativeView `json:"holders,omitempty"`   // of its places, if it has none left
	Budgets   []budgetView   `json:"budgets,omitempty"`   // that bound the run
	Effects   []effectView   `json:"effects,omitempty"`   // in doubt, or with something wrong
	Pending   []factView     `json:"pending,omitempty"`
	Problem   string         `json:"unreadable,omitempty"`
}

// next is a line to type, and what it is for.
type next struct {
	Command string `json:"command"`
	For     string `json:"for"`
}

func (a *app) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "why RUN | RUN/t1.c0",
		Short: "Says in plain sentences why a run or a tool call is where it is",
		Long: `Says in plain sentences why a run or a tool call is where it is: what is, since when, by
whom, and what to type. -o json gives the sentences, and the same in fields.`,
		Example: `  ledgerctl why 7W6X5Y
  ledgerctl why 7W6X5Y/t1.c0
  ledgerctl why 7W6X5Y -o json | jq .handoffs`,
		Args: oneArg("a run or a call"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				explain := a.whyRun
				if strings.Contains(args[0], "/") {
					explain = a.whyCall
				}
				e, err := explain(ctx, st, args[0])
				if err != nil {
					return err
				}
				if a.output != formatTable {
					return a.json(e)
				}
				a.printExplanation(e)
				return nil
			})
		},
	}
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) printExplanation(e explanation) {
	for _, s := range e.Why {
		for i, line := range wrap(clean(s), max(a.term.width-2, 0)) {
			if i > 0 {
				line = "  " + line
			}
			fmt.Fprintln(a.out, line)
		}
	}
	if len(e.Next) == 0 {
		return
	}
	a.section("next")
	for _, n := range e.Next {
		a.toType(n.Command, n.For)
	}
}

// explainer explains what is in a ledger, in the words of this command line.
func (a *app) explainer(st ledger.Store) telling.Explainer {
	return telling.Explainer{
		From: access.Scoped(st, access.Principal{Scopes: []access.Scope{access.Read}}),
		Now:  a.now, Since: a.since, Where: a.command, Force: "--force", Grace: a.opts.Grace,
	}
}

func (a *app) whyRun(ctx context.Context, st ledger.Store, name string) (explanation, error) {
	s, err := a.readSummary(ctx, st, name)
	if err != nil {
		return explanation{}, err
	}
	x, err := a.explainer(st).WhyRun(ctx, s)
	e := a.explanation(x)
	details := a.runView(s)
	e.Details, e.Problem = &details, s.Unreadable
	return e, err
}

func (a *app) whyCall(ctx context.Context, st ledger.Store, name string) (explanation, error) {
	part, call, err := splitCall(name)
	if err != nil {
		return explanation{}, err
	}
	run, err := a.readRun(ctx, st, part)
	if err != nil {
		return explanation{}, err
	}
	x, ok, err := a.explainer(st).WhyCall(ctx, run, call)
	if err == nil && !ok {
		err = a.noSuchCall(ctx, st, run.ID, call)
	}
	return a.explanation(x), err
}

// explanation is what is printed of one.
func (a *app) explanation(x telling.Explanation) explanation {
	e := explanation{
		Run: x.Run, Call: x.Call, State: x.State, Why: x.Why, Next: []next{},
		Handoffs: viewsOf(x.Handoffs, viewHandoff), Approvals: viewsOf(x.Approvals, newApprovalView), Switches: viewsOf(x.Switches, newSwitchView),
		Budgets: viewsOf(x.Budgets, viewOfBudget), Effects: viewsOf(x.Effects, viewOfEffect), Pending: viewsOf(x.Pending, newFactView),
		Children: viewsOf(x.Children, func(r ledger.Run) relativeView { return a.relative("child", r) }),
		Holders:  viewsOf(x.Holders, func(r ledger.Run) relativeView { return a.relative("holder", r) }),
	}
	for _, n := range x.Next {
		e.Next = append(e.Next, next{a.command(n.Words...), n.For})
	}
	if x.Queue != nil {
		v := viewOfQueue(*x.Queue)
		e.Queue = &v
	}
	return e
}

// viewsOf is a list of views; nil for none.
func viewsOf[T, V any](list []T, view func(T) V) []V {
	var out []V
	for _, x := range list {
		out = append(out, view(x))
	}
	return out
}

// relativeView is another run that matters to the one in question.
type relativeView struct {
	Relation string            `json:"relation,omitempty"`
	Run      events.RunID      `json:"run"`
	Agent    string            `json:"agent"`
	State    ledger.State      `json:"state"`
	WaitsFor events.ParkReason `json:"waits_for,omitempty"`
	Worker   string            `json:"worker,omitempty"`
	Attempt  int               `json:"attempt,omitempty"`
	Error    string            `json:"error,omitempty"`
	// Cost is of a child in a run's report: with all runs below it.
	Cost      *dollars `json:"cost,omitempty"`
	how, cost string
}

func (a *app) relative(relation string, r ledger.Run) relativeView {
	return relativeView{
		Relation: relation, Run: r.ID, Agent: r.Agent, State: r.State, WaitsFor: r.ParkReason, Worker: r.Worker, Attempt: r.Attempt, Error: r.Error,
		how: telling.Explainer{Now: a.now, Since: a.since}.HowEnded(r),
	}
}
