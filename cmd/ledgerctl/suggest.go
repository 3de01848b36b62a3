package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Bounds of what a shell is offered: it waits for it.
const (
	suggestTime = 2 * time.Second
	suggestMost = 100
)

// suggester looks for words in the ledger.
type suggester func(ctx context.Context, st ledger.Store) ([]string, error)

// suggest gives every command words of the ledger to complete: arguments by what Use
// calls them, and flags by their names. Errors are silent: a shell has no place for them.
func (a *app) suggest(root *cobra.Command) {
	arguments := map[string]suggester{
		"RUN": suggestRuns, "QUEUE": suggestQueues, "[QUEUE]": suggestQueues, "TOOL": suggestTools, "OPKEY": suggestEffects,
		"ID": suggestApprovals, "TOKEN": suggestHandoffs, "[RUN]": suggestRuns,
	}
	flags := map[string]suggester{
		"run": suggestRuns, "queue": suggestQueues, "tool": suggestTools, "agent": suggestAgents, "session": suggestSessions,
		"owner": suggestOwners, "tenant": suggestTenants,
	}
	each(root, func(c *cobra.Command) {
		words := strings.Fields(c.Use)
		if len(words) > 1 && c.ValidArgsFunction == nil && c.Runnable() {
			if f := arguments[words[1]]; f != nil {
				c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
					if len(args) > 0 {
						return nil, cobra.ShellCompDirectiveNoFileComp
					}
					return a.suggestions(f), cobra.ShellCompDirectiveNoFileComp
				}
			}
		}
		for name, f := range flags {
			if c.LocalNonPersistentFlags().Lookup(name) == nil {
				continue
			}
			// A command that has its own says so by an error.
			_ = c.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return a.suggestions(f), cobra.ShellCompDirectiveNoFileComp
			})
		}
	})
}

func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		each(sub, f)
	}
}

func (a *app) suggestions(f suggester) []string {
	ctx, cancel := context.WithTimeout(a.context(), suggestTime)
	defer cancel()
	stderr := a.err
	a.err = io.Discard
	defer func() { a.err = stderr }()
	st, _, err := a.open(ctx)
	if err != nil {
		return nil
	}
	defer st.Close()
	words, err := f(ctx, st)
	if err != nil {
		return nil
	}
	words = slices.DeleteFunc(words, func(w string) bool {
		word, _, _ := strings.Cut(w, "\t")
		return word == "" || clean(word) != word // what cannot be seen is nothing to offer
	})
	return words[:min(len(words), suggestMost)]
}

// runWords are words of the newest runs, each once.
func runWords(word func(ledger.Summary) string) suggester {
	return func(ctx context.Context, st ledger.Store) ([]string, error) {
		rs, err := st.Summaries(ctx, ledger.RunFilter{Limit: 10 * suggestMost})
		var words []string
		for _, r := range rs {
			if w := word(r); !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
		return words, err
	}
}

func suggestRuns(ctx context.Context, st ledger.Store) ([]string, error) {
	rs, err := st.Summaries(ctx, ledger.RunFilter{Limit: suggestMost})
	words := make([]string, len(rs))
	for i, r := range rs {
		words[i] = r.ID.String() + "\t" + clean(string(r.State)+" "+r.Agent)
	}
	return words, err
}

func suggestAgents(ctx context.Context, st ledger.Store) ([]string, error) {
	return runWords(func(r ledger.Summary) string { return r.Agent })(ctx, st)
}

func suggestSessions(ctx context.Context, st ledger.Store) ([]string, error) {
	return runWords(func(r ledger.Summary) string { return r.SessionID })(ctx, st)
}

func suggestOwners(ctx context.Context, st ledger.Store) ([]string, error) {
	return runWords(func(r ledger.Summary) string { return r.Owner })(ctx, st)
}

func suggestTenants(ctx context.Context, st ledger.Store) ([]string, error) {
	return runWords(func(r ledger.Summary) string { return r.Tenant })(ctx, st)
}

func suggestQueues(ctx context.Context, st ledger.Store) ([]string, error) {
	qs, err := st.QueueStats(ctx, "")
	words := make([]string, len(qs))
	for i, q := range qs {
		words[i] = q.Queue
	}
	return words, err
}

func suggestTools(ctx context.Context, st ledger.Store) ([]string, error) {
	cs, err := st.Calls(ctx, ledger.CallFilter{Limit: 10 * suggestMost})
	var words []string
	for _, c := range cs {
		if !slices.Contains(words, c.Tool) {
			words = append(words, c.Tool)
		}
	}
	return words, err
}

func suggestEffects(ctx context.Context, st ledger.Store) ([]string, error) {
	es, err := st.Effects(ctx, ledger.EffectFilter{States: []events.EffectState{events.EffectInDoubt}, Limit: suggestMost})
	words := make([]string, len(es))
	for i, e := range es {
		words[i] = shortKey(e.OpKey) + "\t" + clean(e.Tool)
	}
	return words, err
}

func suggestApprovals(ctx context.Context, st ledger.Store) ([]string, error) {
	as, err := st.Approvals(ctx, ledger.ApprovalFilter{Open: true, Limit: suggestMost})
	words := make([]string, len(as))
	for i, x := range as {
		words[i] = x.ID.String() + "\t" + clean(x.Tool+" "+string(x.Arguments))
	}
	return words, err
}

func suggestHandoffs(ctx context.Context, st ledger.Store) ([]string, error) {
	hs, err := st.Handoffs(ctx, ledger.HandoffFilter{States: []ledger.HandoffState{ledger.HandoffOpen}, Limit: suggestMost})
	words := make([]string, len(hs))
	for i, h := range hs {
		words[i] = h.Token.String() + "\t" + clean(h.Tool)
	}
	return words, err
}
