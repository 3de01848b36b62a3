package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// callReport is all that is known of a call: its outcome or where it stands,
// every transition, and its effect if it has one.
type callReport struct {
	callView
	Transitions []callView  `json:"transitions"`
	EffectRow   *effectView `json:"effect_row,omitempty"`
}

func (a *app) callsShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show RUN/t1.c0",
		Short: "Shows a tool call: its transitions, arguments, result and effect",
		Example: `  ledgerctl calls show 7W6X5Y/t1.c0
  ledgerctl calls show 7W6X5Y/t1.c0 -o json | jq .effect_row.attempts`,
		Args: oneArg("a call"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.callReport(ctx, st, args[0])
				if err != nil {
					return err
				}
				if a.output != formatTable {
					return a.json(r)
				}
				return a.printCall(r)
			})
		},
	}
	a.outputFlag(c, showFormats...)
	return c
}

// callReport gathers what is known of the call that a person typed.
func (a *app) callReport(ctx context.Context, st ledger.Store, name string) (callReport, error) {
	part, call, err := splitCall(name)
	if err != nil {
		return callReport{}, err
	}
	run, err := a.readRun(ctx, st, part)
	if err != nil {
		return callReport{}, err
	}
	rs, err := telling.CallRecords(ctx, st, run.ID, func(r ledger.CallRecord) bool { return r.Call == call })
	if err != nil {
		return callReport{}, err
	}
	if len(rs) == 0 {
		return callReport{}, a.noSuchCall(ctx, st, run.ID, call)
	}
	r := callReport{callView: newCallView(telling.Standing(rs))}
	for _, rec := range rs {
		r.Transitions = append(r.Transitions, newCallView(rec))
	}
	if !r.OpKey.IsZero() {
		e, err := a.readEffect(ctx, st, r.OpKey)
		if err != nil {
			return r, err
		}
		v, err := a.effectView(ctx, st, e)
		if err != nil {
			return r, err
		}
		r.EffectRow = &v
	}
	return r, nil
}

func (a *app) noSuchCall(ctx context.Context, st ledger.Store, run events.RunID, call events.CallID) error {
	cs, err := telling.LatestCalls(ctx, st, run)
	if err != nil {
		return err
	}
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.Call.String()
	}
	if len(names) == 0 {
		return fmt.Errorf("run %s has no tool calls yet (%s)", run, a.command("why", run.String()))
	}
	return fmt.Errorf("run %s has no tool call %s: it has %s", run, call, strings.Join(names, ", "))
}

func (a *app) printCall(r callReport) error {
	kind := either(", ", r.Effect, with("recovery ", r.Recovery))
	if kind != "" {
		kind = " (" + kind + ")"
	}
	fs := []field{
		{"call", r.Run.String() + "/" + r.Call},
		{"tool", r.Tool + kind},
		{"status", either(": ", r.Status, r.Reason, r.Detail)},
		{"of", r.Of},
		{"for", either(", ", with("owner ", r.Owner), with("session ", r.Session), "tenant "+r.Tenant)},
		{"started", stamp(r.StartedAt)},
		{"at", a.since(r.At)},
		{"took", strings.Trim(latency(r.LatencyMS), "-")},
		{"cost", strings.Trim(callCost(r.callView), "-")},
		{"trust", r.Trust},
		{"trace", r.Trace},
	}
	a.fields(fs)
	a.block("arguments", r.Arguments)
	a.block("result", r.Result)
	a.section("transitions")
	if err := table(a.out, a.term, r.Transitions, a.transitionColumns()); err != nil {
		return err
	}
	if r.EffectRow == nil {
		return nil
	}
	return a.printEffect(*r.EffectRow)
}

func (a *app) printEffect(e effectView) error {
	a.section("effect")
	state := string(e.State)
	if e.State == events.EffectInDoubt {
		state += " since " + a.since(e.InDoubtSince) + ": " + telling.CauseWords(e.Cause)
	}
	settled := ""
	if e.SettledBy != "" {
		settled = either(" ", "by "+e.SettledBy, stamp(e.SettledAt))
	}
	flag := func(on bool, text string) string {
		if on {
			return text
		}
		return ""
	}
	a.fields([]field{
		{"op key", e.OpKey.String()},
		{"state", state},
		{"settled", settled},
		{"evidence", e.Evidence},
		{"flags", either(", ", flag(e.Forced, "forced before quiescence"), flag(e.Contradicted, "contradicted by late evidence"), flag(e.PossibleDuplicate, "possible duplicate: two attempts say they took effect"))},
		{"scope", fmt.Sprintf("%s %s, generation %d", e.Scope, e.ScopeKey, e.Generation)},
		{"identity", string(e.Identity)},
	})
	a.section("attempts of the op key")
	if err := table(a.out, a.term, e.Attempts, attemptColumns()); err != nil {
		return err
	}
	if len(e.Waiting) > 0 {
		a.section("runs that wait for it")
		for _, w := range e.Waiting {
			fmt.Fprintln(a.out, w)
		}
	}
	if e.State == events.EffectInDoubt {
		a.howToResolve([]effectView{e})
	}
	return nil
}

// block prints JSON over several lines, with its strings made safe.
func (a *app) block(title string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	a.section("%s", title)
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		b.Reset()
		b.Write(raw)
	}
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(a.out, clean(strings.TrimSuffix(line, "\n")))
	}
}

func (a *app) transitionColumns() []column[callView] {
	return []column[callView]{
		{name: "seq", keep: true, right: true, text: func(v callView) string { return strconv.FormatUint(v.Seq, 10) }},
		{name: "time", keep: true, text: func(v callView) string { return stamp(v.At) }},
		{name: "attempt", keep: true, right: true, text: func(v callView) string {
			if v.Attempt == 0 {
				return "-" // it was not run
			}
			return strconv.Itoa(v.Attempt)
		}},
		{name: "status", keep: true, text: func(v callView) string { return v.Status }, style: func(v callView) style { return stateStyle(v.Status) }},
		{name: "what", text: callWhat},
	}
}
