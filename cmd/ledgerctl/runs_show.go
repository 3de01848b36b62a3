package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// runReport is all that is known of a run.
type runReport struct {
	runView
	// Prompt are the layers that the prompt was composed of, lowest first.
	Prompt []events.PromptLayer `json:"prompt_layers,omitempty"`
	// Asked is what the submission said about the prompt.
	Asked json.RawMessage `json:"asked_prompt,omitempty"`
	// Skills are those that the run follows or may load.
	Skills     []events.Skill `json:"skills,omitempty"`
	Events     []eventView    `json:"events"`
	ModelCalls []modelView    `json:"model_calls"`
	ToolCalls  []callView     `json:"tool_calls"`
	Pending    []factView     `json:"pending"`
	// Related are the other attempts, the origin, children and forks of the run.
	Related []relativeView `json:"related"`
	// WithChildren is what the run cost with all runs below it; nil = there are none.
	WithChildren *dollars `json:"cost_with_children,omitempty"`
	withChildren ledger.CostRow
	cut          bool // there are more events
}

func (a *app) runsShowCommand() *cobra.Command {
	var p page
	var f transcriptFlags
	var tree bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Shows a run: its state, related runs, timeline, model calls, tool calls and what is pending",
		Long: `Shows a run: its state, related runs, timeline, model calls, tool calls and what is pending.
With --transcript it is told as a conversation instead, with what each turn cost: what
was asked and answered, what tools were called with and gave, what was handed back, in
doubt, approved or waited for, who took over. Its totals are those of ledgerctl costs.
With --tree it is the runs that work for it, and for those, with state and cost.`,
		Example: `  ledgerctl runs show 01KF2M4T00ZV5S9Q3E8R7W6X5Y
  ledgerctl runs show 7W6X5Y -o json | jq .totals
  ledgerctl runs show 7W6X5Y --transcript | less -R
  ledgerctl runs show 7W6X5Y --transcript -o jsonl | jq 'select(.kind == "turn").sums.cost'`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if tree {
				return a.runsTree(c, args)
			}
			if f.on {
				return a.runsTranscript(c, args, f)
			}
			return a.runsShow(c, args, p)
		},
	}
	c.Flags().BoolVar(&f.on, "transcript", false, "as a conversation, with what each turn cost")
	c.Flags().BoolVar(&tree, "tree", false, "the runs that work for it, with state and cost")
	c.Flags().BoolVar(&f.prompt, "prompt", false, "with --transcript: the system prompt too")
	c.Flags().BoolVar(&f.full, "full", false, "with --transcript: arguments and results to their end")
	c.Flags().IntVar(&p.limit, "limit", 200, fmt.Sprintf("events of the timeline at most, up to %d", maxPage))
	c.Flags().StringVar(&p.after, "after", "", "the timeline goes on after this seq")
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) runsTranscript(c *cobra.Command, args []string, f transcriptFlags) error {
	for _, flag := range []string{"limit", "after"} {
		if c.Flags().Changed(flag) {
			return usagef("--%s is of the timeline: a transcript is told from its beginning", flag)
		}
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		s, err := a.readSummary(ctx, st, args[0])
		if err != nil {
			return err
		}
		return a.transcript(ctx, st, s, f)
	})
}

func (a *app) runsShow(c *cobra.Command, args []string, p page) error {
	if err := p.check(); err != nil {
		return err
	}
	var after uint64
	if p.after != "" {
		var err error
		if after, err = strconv.ParseUint(p.after, 10, 63); err != nil {
			return usagef("--after %q: want the seq of an event", p.after)
		}
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		s, err := a.readSummary(ctx, st, args[0])
		if err != nil {
			return err
		}
		r, err := a.runReport(ctx, st, s, after, p.limit)
		if err != nil {
			return err
		}
		if a.output != formatTable {
			err = a.json(r)
		} else {
			err = a.printReport(r)
		}
		if err == nil && r.cut {
			a.more(c, args, strconv.FormatUint(r.Events[len(r.Events)-1].Seq, 10))
		}
		return err
	})
}

var errEnough = errors.New("enough events")

func (a *app) runReport(ctx context.Context, st ledger.Store, s ledger.Summary, after uint64, limit int) (runReport, error) {
	r := runReport{runView: a.runView(s), Events: []eventView{}, ModelCalls: []modelView{}, ToolCalls: []callView{}, Pending: []factView{}}
	r.Input, r.Asked = s.Input, s.Prompt
	err := st.Events(ctx, s.ID, after+1, func(e events.Sealed) error {
		if r.cut = len(r.Events) == limit; r.cut {
			return errEnough
		}
		v, err := newEventView(e)
		r.Events = append(r.Events, v)
		if v.Type == events.TypeOf(events.RunStarted{}) {
			if d, err := e.Decode(); err == nil { // else the timeline says that it cannot be read
				p := d.Data.(events.RunStarted)
				r.Prompt, r.Skills = p.PromptLayers, p.Skills
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return r, fmt.Errorf("read events of run %s: %w", s.ID, err)
	}
	ms, err := st.ModelCalls(ctx, s.ID)
	if err != nil {
		return r, err
	}
	for _, m := range ms {
		r.ModelCalls = append(r.ModelCalls, newModelView(m))
	}
	cs, err := telling.LatestCalls(ctx, st, s.ID)
	if err != nil {
		return r, err
	}
	for _, rec := range cs {
		r.ToolCalls = append(r.ToolCalls, newCallView(rec))
	}
	fs, err := st.Pending(ctx, s.ID)
	if err != nil {
		return r, err
	}
	for _, f := range fs {
		r.Pending = append(r.Pending, newFactView(f))
	}
	if r.Related, err = a.related(ctx, st, s.Run); err != nil {
		return r, err
	}
	return r, r.costChildren(ctx, st)
}

// costChildren puts to each child what it cost with all below it, and sums them up.
func (r *runReport) costChildren(ctx context.Context, st ledger.Store) error {
	if !slices.ContainsFunc(r.Related, func(v relativeView) bool { return v.Relation == "child" }) {
		return nil
	}
	all, err := st.Costs(ctx, ledger.CostFilter{Run: r.Run, Lineage: true})
	if err != nil {
		return err
	}
	for _, row := range all {
		r.withChildren = r.withChildren.Plus(row)
	}
	total := rowCost(r.withChildren)
	r.WithChildren = &total
	for i := range r.Related {
		v := &r.Related[i]
		if v.Relation != "child" {
			continue
		}
		rows, err := st.Costs(ctx, ledger.CostFilter{Run: v.Run, Lineage: true})
		if err != nil {
			return err
		}
		var own ledger.CostRow
		for _, row := range rows {
			own = own.Plus(row)
		}
		cost := rowCost(own)
		v.Cost, v.cost = &cost, costWords(own)
	}
	return nil
}

// maxChain is how many attempts before and after a run are shown.
const maxChain = 20

// related are the runs around a run: whom it works for and where it comes from,
// the attempts of the same work, and what came of it.
func (a *app) related(ctx context.Context, st ledger.Store, r ledger.Run) ([]relativeView, error) {
	out := []relativeView{}
	add := func(relation string, id events.RunID) (ledger.Run, error) {
		o, err := st.Run(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return ledger.Run{}, nil // it is older than what is kept
		}
		if err == nil {
			out = append(out, a.relative(relation, o))
		}
		return o, err
	}
	for o, n := r, 0; !o.RetryOf.IsZero() && n < maxChain; n++ {
		var err error
		if o, err = add("attempt", o.RetryOf); err != nil {
			return nil, err
		}
	}
	slices.Reverse(out) // the first attempt first
	for _, o := range []struct {
		relation string
		id       events.RunID
	}{{"parent", r.Parent}, {"fork_of", r.ForkOf}} {
		if o.id.IsZero() {
			continue
		}
		if _, err := add(o.relation, o.id); err != nil {
			return nil, err
		}
	}
	for o, n := r, 0; !o.Successor.IsZero() && n < maxChain; n++ {
		var err error
		if o, err = add("attempt", o.Successor); err != nil {
			return nil, err
		}
	}
	below, err := st.Descendants(ctx, r.ID, 0)
	for _, d := range below {
		relation := "child"
		if d.ForkOf == r.ID {
			relation = "fork"
		}
		out = append(out, a.relative(relation, d))
	}
	return out, err
}

func (a *app) printReport(r runReport) error {
	a.fields(a.runFields(r.runView))
	if len(r.Related) > 0 {
		a.section("related runs")
		if err := table(a.out, a.term, r.Related, relatedColumns()); err != nil {
			return err
		}
		if r.WithChildren != nil {
			fmt.Fprintf(a.out, "with its children the run cost %s\n", costWords(r.withChildren))
		}
	}
	if err := a.printPrompt(r); err != nil {
		return err
	}
	a.section("timeline")
	if len(r.Events) == 0 {
		fmt.Fprintln(a.out, "no events yet: no worker has taken the run")
	} else if err := table(a.out, a.term, r.Events, eventColumns()); err != nil {
		return err
	}
	if len(r.ModelCalls) > 0 {
		a.section("model calls")
		if err := table(a.out, a.term, r.ModelCalls, modelColumns()); err != nil {
			return err
		}
	}
	if len(r.ToolCalls) > 0 {
		a.section("tool calls")
		if err := table(a.out, a.term, r.ToolCalls, a.callColumns(false)); err != nil {
			return err
		}
	}
	if len(r.Pending) > 0 {
		a.section("pending facts (true already; the next holder of the run puts them into the timeline)")
		return table(a.out, a.term, r.Pending, []column[factView]{
			{name: "time", keep: true, text: func(v factView) string { return stamp(v.At) }},
			{name: "type", keep: true, text: func(v factView) string { return string(v.Type) }},
			{name: "what", text: func(v factView) string { return v.what }},
		})
	}
	return nil
}

func relatedColumns() []column[relativeView] {
	return []column[relativeView]{
		{name: "relation", keep: true, text: func(v relativeView) string { return v.Relation }},
		{name: "run", keep: true, text: func(v relativeView) string { return v.Run.String() }},
		{name: "attempt", right: true, text: func(v relativeView) string { return strconv.Itoa(v.Attempt) }},
		{name: "agent", text: func(v relativeView) string { return v.Agent }},
		{name: "state", keep: true, text: func(v relativeView) string { return string(v.State) }, style: func(v relativeView) style { return stateStyle(string(v.State)) }},
		{name: "cost", keep: true, right: true, mixed: true, text: func(v relativeView) string { return v.cost }},
		{name: "what", want: 24, text: func(v relativeView) string { return v.how }},
	}
}

func (a *app) runFields(v runView) []field {
	state := string(v.State)
	if w := v.WaitsFor; w != nil {
		state = either(": ", state, string(w.Reason), w.Detail) + ", since " + a.since(w.Since)
	}
	fs := []field{
		{"run", v.Run.String()},
		{"state", state},
		{"stopped by", either(": ", string(v.StoppedBy), v.Declined)},
		{"error", v.Error},
		{"agent", v.Agent},
		{"for", either(", ", with("owner ", v.Owner), with("session ", v.Session), "tenant "+v.Tenant, "queue "+v.Queue)},
		{"key", v.ClientKey},
		{"attempt", attemptWords(v)},
		{"schedule", either(", fire of ", v.Schedule, stamp(v.Fire))},
		{"created", a.since(v.CreatedAt)},
		{"deadline", stamp(v.Deadline)},
		{"ended", stamp(v.EndedAt)},
	}
	if !v.Root.IsZero() {
		fs = append(fs, field{"root", v.Root.String()})
	}
	if !v.Parent.IsZero() {
		fs = append(fs, field{"parent", v.Parent.String()})
	}
	if v.Place > 0 {
		fs = append(fs, field{"session", fmt.Sprintf("run %d of %s", v.Place, v.Session)}, field{"goes on from", v.Continues.words()})
	}
	if f := v.ForkOf; f != nil {
		fs = append(fs, field{"fork of", fmt.Sprintf("%s up to event %d, effects %s", f.Run, f.Seq, f.Effects)})
	}
	if l := v.Lease; l != nil {
		fs = append(fs, field{"lease", fmt.Sprintf("%s, epoch %d, until %s", l.Worker, v.Epoch, a.since(l.Until))})
	} else if v.Worker != "" {
		fs = append(fs, field{"last worker", fmt.Sprintf("%s, epoch %d", v.Worker, v.Epoch)})
	}
	if c := v.Cancel; c != nil {
		fs = append(fs, field{"cancel", either(": ", "asked for by "+c.By+at(a, c.Since), c.Reason)})
	}
	t := v.Totals
	return append(fs,
		field{"did", fmt.Sprintf("%s, %s, %s (%d destructive, %d repeated, %d blocked, %d in doubt), %s",
			plural(t.Turns, "turn"), plural(t.ModelCalls, "model call"), plural(t.ToolCalls, "tool call"), t.Destructive, t.Repeated, t.Blocked, t.InDoubt, plural(t.Resumes, "resume"))},
		field{"cost", t.words(" USD") + fmt.Sprintf(" (%d in + %d out tokens)", t.InputTokens, t.OutputTokens)},
		field{"input", string(v.Input)},
		field{"result", string(v.Result)},
	)
}

// at is when something was, if that is known.
func at(a *app, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + a.since(t)
}

// attemptWords says which attempt a run is, if there is more than one.
func attemptWords(v runView) string {
	switch {
	case v.Attempt <= 1 && v.RetriedAs.IsZero() && v.DeadSince.IsZero():
		return ""
	case v.Attempts > 0:
		return either(", ", fmt.Sprintf("%d of %d", v.Attempt, v.Attempts), with("dead since ", stamp(v.DeadSince)))
	}
	return either(", ", strconv.Itoa(v.Attempt), with("dead since ", stamp(v.DeadSince)))
}

func eventColumns() []column[eventView] {
	return []column[eventView]{
		{name: "seq", keep: true, right: true, text: func(v eventView) string { return strconv.FormatUint(v.Seq, 10) }},
		{name: "time", keep: true, text: func(v eventView) string { return stamp(v.Time) }},
		{name: "epoch", keep: true, right: true, mixed: true, text: func(v eventView) string { return strconv.FormatUint(v.Epoch, 10) }},
		{name: "type", keep: true, text: func(v eventView) string { return string(v.Type) }, style: func(v eventView) style { return eventStyle(v.Type) }},
		{name: "what", text: func(v eventView) string { return v.what }},
	}
}

func eventStyle(t events.Type) style {
	switch t {
	case events.TypeOf(events.RunFailed{}), events.TypeOf(events.ModelCallError{}), events.TypeOf(events.ToolExecutionError{}),
		events.TypeOf(events.ToolExecutionBlocked{}), events.TypeOf(events.ToolExecutionInDoubt{}):
		return red
	case events.TypeOf(events.RunParked{}), events.TypeOf(events.RunResumed{}), events.TypeOf(events.EffectResolved{}), events.TypeOf(events.OperatorActed{}),
		events.TypeOf(events.TranscriptCompacted{}):
		return yellow
	default:
		return plain
	}
}

func modelColumns() []column[modelView] {
	tokens := func(f func(*events.Usage) int64) func(modelView) string {
		return func(v modelView) string {
			if v.Usage == nil || v.Usage.Missing {
				return "unknown"
			}
			return strconv.FormatInt(f(v.Usage), 10)
		}
	}
	return []column[modelView]{
		{name: "turn", keep: true, right: true, text: func(v modelView) string { return strconv.Itoa(v.Turn) }},
		{name: "attempt", keep: true, right: true, text: func(v modelView) string { return strconv.Itoa(v.Attempt) }},
		{name: "state", keep: true, text: func(v modelView) string { return v.State }, style: func(v modelView) style { return stateStyle(v.State) }},
		{name: "model", text: func(v modelView) string {
			if v.ServedModel != "" && v.ServedModel != v.Model {
				return v.Model + " served by " + v.ServedModel
			}
			return v.Model
		}},
		{name: "input", keep: true, right: true, text: tokens(func(u *events.Usage) int64 { return u.Input })},
		{name: "cached", keep: true, right: true, mixed: true, text: tokens(func(u *events.Usage) int64 { return u.CacheRead + u.CacheWrite })},
		{name: "output", keep: true, right: true, text: tokens(func(u *events.Usage) int64 { return u.Output })},
		{name: "cost", keep: true, right: true, text: modelCost},
		{name: "took", keep: true, right: true, text: func(v modelView) string { return latency(v.LatencyMS) }},
		{name: "error", mixed: true, text: func(v modelView) string { return v.Error }},
	}
}

func modelCost(v modelView) string {
	switch {
	case v.Cost != nil:
		return v.Cost.String()
	case v.State == "unsettled":
		return "unsettled"
	case v.priced:
		return "not billed"
	default:
		return "unpriced"
	}
}
