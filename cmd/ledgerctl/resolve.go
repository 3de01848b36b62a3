package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

type resolveFlags struct {
	applied, notApplied, abandon bool
	note, result                 string
	force                        bool
	attempt                      int
	acting
}

// state is what the flags say; exactly one of them must.
func (f resolveFlags) state() (events.EffectState, error) {
	var said []events.EffectState
	if f.applied {
		said = append(said, events.EffectApplied)
	}
	if f.notApplied {
		said = append(said, events.EffectNotApplied)
	}
	if f.abandon {
		said = append(said, events.EffectAbandoned)
	}
	if len(said) != 1 {
		return "", usagef("say one of --applied (it happened), --not-applied (it did not) and --abandon (nobody will ever know)")
	}
	return said[0], nil
}

func (a *app) resolveCommand() *cobra.Command {
	var f resolveFlags
	c := &cobra.Command{
		Use:   "resolve OPKEY",
		Short: "Says what became of an effect in doubt",
		Long: `Says what became of an effect in doubt; the model is told, and whoever waits for the
effect goes on. OPKEY is an op key or its first 8 digits or more.

--not-applied and --abandon want quiescence: no attempt can still act. --force says it
before that, and the record says so; the effect may then happen a second time.
Late evidence is kept beside it, also against it.

--attempt is the latest attempt that ledgerctl indoubt or calls show told of, and stands
in the lines to type that they print: if another one has been made since, nothing is
settled, for what they know is not about it.
` + whoActs,
		Example: `  ledgerctl resolve 9f3b61c2 --applied --attempt 1 --note "refund re_7 is in the provider's list"
  ledgerctl resolve 9f3b61c2 --not-applied --attempt 1 --note "not in the list, checked at 12:40"`,
		Args: oneArg("an op key"),
		RunE: func(c *cobra.Command, args []string) error { return a.resolve(c.Context(), args[0], f) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.applied, "applied", false, "it happened")
	fs.BoolVar(&f.notApplied, "not-applied", false, "it did not happen; the call may be made again")
	fs.BoolVar(&f.abandon, "abandon", false, "nobody will ever know; the call is never made again")
	f.person(c)
	fs.StringVar(&f.note, "note", "", "how they know (required)")
	fs.IntVar(&f.attempt, "attempt", 0, "the latest attempt that they looked at; of a later one nothing is said (default whichever it is)")
	fs.StringVar(&f.result, "result", "", "what the model is told; default a sentence that says what you said")
	fs.BoolVar(&f.force, "force", false, "do not wait for quiescence")
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) resolve(ctx context.Context, key string, f resolveFlags) error {
	state, err := f.state()
	if err != nil {
		return err
	}
	if f.note == "" {
		return usagef("--note is required: the record says who resolved it, and how they knew")
	}
	if f.attempt < 0 {
		return usagef("--attempt %d: want the number that %s shows", f.attempt, a.command("indoubt"))
	}
	if f.force {
		if err := a.confirm("a resolution that does not wait until no attempt can still act"); err != nil {
			return err
		}
	}
	st, red, err := a.open(ctx)
	if err != nil {
		return err
	}
	err = func() error {
		e, err := a.findEffect(ctx, st, key)
		if err != nil {
			return err
		}
		by, err := a.actor(ctx, st, f.acting)
		if err != nil {
			return err
		}
		r := ledger.Resolution{OpKey: e.OpKey, State: state, By: by, Note: f.note, Force: f.force, Attempt: f.attempt}
		if r.Attempt == 0 {
			r.Attempt, r.Run = e.Attempts, e.Run
		}
		if f.result != "" {
			r.Result = toldAs(state, red.String(f.result))
		}
		set, err := st.Resolve(ctx, r)
		if err != nil {
			return a.whyNotResolved(err, e)
		}
		return a.printSettlement(e, set)
	}()
	return errors.Join(err, st.Close())
}

// toldAs is what the model reads, in words that a person gave.
func toldAs(state events.EffectState, words string) events.ToolResult {
	if state == events.EffectApplied {
		return events.ToolResult{Status: "completed", Output: words, Trust: "own"}
	}
	return events.ToolResult{Status: "failed", Error: words, Trust: "own"}
}

func (a *app) whyNotResolved(err error, e ledger.Effect) error {
	switch {
	case errors.Is(err, ledger.ErrNotQuiescent):
		from := "after its worker's lease"
		if e.QuiescentIn > 0 {
			from = "from " + stamp(e.Deadline.Add(a.opts.Grace))
		}
		return fmt.Errorf("%w (possible %s; --applied is possible now)", err, from)
	case errors.Is(err, ledger.ErrAttemptedSince):
		return fmt.Errorf("%w (%s)", err, a.command("calls", "show", callName(e.Run, e.Call)))
	case errors.Is(err, ledger.ErrNotInDoubt):
		return fmt.Errorf("%w: nothing to resolve (%s)", err, a.command("calls", "show", callName(e.Run, e.Call)))
	default:
		return err
	}
}

// settlementView is what resolve prints as JSON.
type settlementView struct {
	OpKey  events.Hash        `json:"op_key"`
	State  events.EffectState `json:"state"`
	Run    events.RunID       `json:"run"`
	Call   string             `json:"call"`
	Result events.ToolResult  `json:"result"`
	At     time.Time          `json:"at,omitzero"`
}

func (a *app) printSettlement(e ledger.Effect, set ledger.Settlement) error {
	v := settlementView{OpKey: e.OpKey, State: set.State, Run: e.Run, Call: e.Call.String(), Result: set.Result}
	if set.Fact != nil {
		v.At = set.Fact.At
	}
	if a.output == formatJSON {
		return a.json(v)
	}
	fmt.Fprintf(a.out, "effect %s (%s, %s) is %s\n", shortKey(e.OpKey), clean(e.Tool), callName(e.Run, e.Call), set.State)
	fmt.Fprintf(a.out, "the model will read: %s\n", clean(said(set.Result)))
	_, err := fmt.Fprintf(a.out, "the run goes on when a worker takes it: %s\n", a.command("runs", "tail", e.Run.String()))
	return err
}
