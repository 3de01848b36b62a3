package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// sessionSums is what the runs of a session come to.
type sessionSums struct {
	Kind       string  `json:"kind,omitempty"` // session_totals, of a line
	Runs       int     `json:"runs"`
	Turns      int64   `json:"turns"`
	ModelCalls int64   `json:"model_calls"`
	ToolCalls  int64   `json:"tool_calls"`
	Cost       dollars `json:"cost"` // of what is priced
	Unpriced   int64   `json:"unpriced"`
	Unmeasured int64   `json:"unmeasured"`
}

func sumsOf(runs []ledger.Summary) sessionSums {
	s := sessionSums{Cost: dollars{new(big.Int)}}
	for _, r := range runs {
		s.Runs++
		s.Turns += r.Turns
		s.ModelCalls += r.ModelCalls
		s.ToolCalls += r.ToolCalls
		s.Cost.pico.Add(s.Cost.pico, dollars{r.Cost}.orZero())
		s.Unpriced += r.Unpriced
		s.Unmeasured += r.Unmeasured
	}
	return s
}

// maxSessionRuns is how many runs of a session are shown at once.
const maxSessionRuns = 10_000

func (a *app) sessionsShowCommand() *cobra.Command {
	var tenant string
	var from uint64
	var f transcriptFlags
	c := &cobra.Command{
		Use:   "show SESSION",
		Short: "Shows a session as one conversation over its runs, with what each run cost",
		Long: `Shows a session as one conversation over its runs, in order, with what each turn, each run
and all of them cost. A run that was tried again is there with each of its attempts: what
went on is the last one. A row for each run: runs list --session SESSION -o csv.

--from N begins with the run at place N.`,
		Example: `  ledgerctl sessions show ticket-7 | less -R
  ledgerctl sessions show ticket-7 -o json | jq '.runs[].totals.cost'`,
		Args: oneArg("a session"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				s, err := a.session(ctx, st, tenant, args[0])
				if err != nil {
					return err
				}
				runs, err := st.SessionRuns(ctx, tenant, args[0], from, maxSessionRuns)
				if err != nil {
					return err
				}
				f.on = true
				return a.showSession(ctx, st, s, runs, f)
			})
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "default", "tenant of the session")
	c.Flags().Uint64Var(&from, "from", 0, "begin with the run at this place")
	c.Flags().BoolVar(&f.prompt, "prompt", false, "the system prompts too")
	c.Flags().BoolVar(&f.full, "full", false, "arguments and results to their end")
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) showSession(ctx context.Context, st ledger.Store, s ledger.Session, runs []ledger.Summary, f transcriptFlags) error {
	buf := bufio.NewWriterSize(a.out, 64<<10)
	inner := *a
	inner.out = buf
	var err error
	switch a.output {
	case formatJSON:
		err = a.sessionJSON(ctx, st, s, runs, f)
	case formatJSONL:
		err = inner.sessionLines(ctx, st, s, runs, f)
	default:
		err = inner.sessionText(ctx, st, s, runs, f)
	}
	return errors.Join(err, buf.Flush())
}

func (a *app) sessionJSON(ctx context.Context, st ledger.Store, s ledger.Session, runs []ledger.Summary, f transcriptFlags) error {
	v := struct {
		Session sessionView       `json:"session"`
		Runs    []json.RawMessage `json:"runs"`
		Totals  sessionSums       `json:"totals"`
	}{viewOfSession(s), []json.RawMessage{}, sumsOf(runs)}
	for _, r := range runs {
		told, err := a.toldJSON(ctx, st, r, f)
		if err != nil {
			return err
		}
		v.Runs = append(v.Runs, told)
	}
	return a.json(v)
}

func (a *app) sessionLines(ctx context.Context, st ledger.Store, s ledger.Session, runs []ledger.Summary, f transcriptFlags) error {
	if err := a.jsonLine(struct {
		Kind string `json:"kind"`
		sessionView
	}{"session", viewOfSession(s)}); err != nil {
		return err
	}
	for _, r := range runs {
		if err := a.writeTranscript(ctx, st, r, f, transcriptLines{a}); err != nil {
			return err
		}
	}
	sums := sumsOf(runs)
	sums.Kind = "session_totals"
	return a.jsonLine(sums)
}

func (a *app) sessionText(ctx context.Context, st ledger.Store, s ledger.Session, runs []ledger.Summary, f transcriptFlags) error {
	a.fields([]field{
		{"session", s.ID},
		{"of", either(", ", with("owner ", s.Owner), "tenant "+s.Tenant)},
		{"runs", fmt.Sprint(s.Places)},
		{"began", a.since(s.CreatedAt)},
		{"last used", a.since(s.LastAt)},
		{"erased", stamp(s.ErasedAt)},
	})
	for _, r := range runs {
		out := &runOfSession{transcriptText{a: a, full: f.full}, r}
		if err := a.writeTranscript(ctx, st, r, f, out); err != nil {
			return err
		}
	}
	sums := sumsOf(runs)
	fmt.Fprintln(a.out)
	a.fields([]field{
		{"session", either(", ", plural(int64(sums.Runs), "run"), plural(sums.Turns, "turn"), plural(sums.ModelCalls, "model call"), plural(sums.ToolCalls, "tool call"))},
		{"cost", money(sums.Cost.pico, " USD", unknown{sums.Unpriced, "unpriced"}, unknown{sums.Unmeasured, "unmeasured"})},
	})
	return nil
}

// runOfSession writes the part of a session's conversation that is one run's.
type runOfSession struct {
	transcriptText
	run ledger.Summary
}

func (o *runOfSession) head(v runView) error {
	o.blank()
	what := fmt.Sprintf("run %d of the session: %s", v.Place, v.Run)
	if v.Attempt > 1 {
		what += fmt.Sprintf(", attempt %d", v.Attempt)
	}
	o.line("", o.paint(clean(either(", ", what, "agent "+v.Agent, stamp(v.CreatedAt))), bold))
	switch {
	case !o.run.BehindAt.IsZero():
		o.line(inset, o.paint("waits for the runs before it", dim))
	case v.Totals.Events == 0 && v.Epoch == 0:
		o.line(inset, o.paint("no worker has taken the run yet", dim))
	}
	return nil
}

func (o *runOfSession) end(totals *telling.ToldView, notes []string) error {
	o.gutter = ""
	s := *totals.Sums
	o.line(inset, o.paint(clean(either(", ", plural(s.Turns, "turn"), plural(s.ModelCalls, "model call"), plural(s.ToolCalls, "tool call"), money(s.Cost.Pico, " USD", unknowns(s)...))), dim))
	for _, n := range notes {
		what, _, _ := strings.Cut(n, "\n")
		o.line(inset, o.paint(clean(what), dim))
	}
	return nil
}
