package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// treeNode is a run with the runs that work for it.
type treeNode struct {
	relativeView
	Cost dollars `json:"cost"`
	// Total is Cost with that of all runs below.
	Total    dollars     `json:"total"`
	Children []*treeNode `json:"children,omitempty"`
	costs    ledger.CostRow
	sum      ledger.CostRow
}

// runsTree shows a run and the runs that work for it, with state and cost.
func (a *app) runsTree(c *cobra.Command, args []string) error {
	for _, flag := range []string{"limit", "after", "transcript"} {
		if c.Flags().Changed(flag) {
			return usagef("--%s is of the timeline or the conversation of one run: leave it out with --tree", flag)
		}
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		r, err := a.readRun(ctx, st, args[0])
		if err != nil {
			return err
		}
		costs, err := lineageCosts(ctx, st, r.ID)
		if err != nil {
			return err
		}
		root, err := a.tree(ctx, st, r, costs, 0)
		if err != nil {
			return err
		}
		if a.output != formatTable {
			return a.json(root)
		}
		printTree(a.out, root, "", "")
		fmt.Fprintf(a.out, "\ntotal %s\n", costWords(root.sum))
		return nil
	})
}

// lineageCosts are what the runs of a lineage cost, by their ids.
func lineageCosts(ctx context.Context, st ledger.Store, run events.RunID) (map[string]ledger.CostRow, error) {
	rows, err := st.Costs(ctx, ledger.CostFilter{Run: run, Lineage: true, By: "run"})
	if err != nil {
		return nil, err
	}
	out := make(map[string]ledger.CostRow, len(rows))
	for _, r := range rows {
		out[r.Key] = r
	}
	return out, nil
}

func (a *app) tree(ctx context.Context, st ledger.Store, r ledger.Run, costs map[string]ledger.CostRow, depth int) (*treeNode, error) {
	n := &treeNode{relativeView: a.relative("", r), costs: costs[r.ID.String()]}
	n.sum = n.costs
	if depth <= ledger.MaxDepth {
		below, err := st.Descendants(ctx, r.ID, ledger.MaxChildren)
		if err != nil {
			return nil, err
		}
		for _, c := range slices.DeleteFunc(below, func(c ledger.Run) bool { return c.Parent != r.ID }) {
			child, err := a.tree(ctx, st, c, costs, depth+1)
			if err != nil {
				return nil, err
			}
			n.Children, n.sum = append(n.Children, child), n.sum.Plus(child.sum)
		}
	}
	n.Cost, n.Total = rowCost(n.costs), rowCost(n.sum)
	return n, nil
}

func rowCost(r ledger.CostRow) dollars { return dollars{r.Cost()} }

// costWords is an amount with what nobody knows beside it.
func costWords(r ledger.CostRow) string {
	return money(rowCost(r).pico, " USD", unknown{r.Unpriced, "unpriced"}, unknown{r.Unmeasured, "unmeasured"}, unknown{r.Unsettled, "unsettled"})
}

func printTree(w io.Writer, n *treeNode, first, rest string) {
	state := string(n.State)
	if n.WaitsFor != "" {
		state += " for " + string(n.WaitsFor)
	}
	if n.Error != "" {
		state += ": " + firstOf(n.Error)
	}
	fmt.Fprintf(w, "%s%s %s · %s · %s\n", first, n.Run, n.Agent, costWords(n.costs), state)
	for i, c := range n.Children {
		branch, below := "├─ ", "│  "
		if i == len(n.Children)-1 {
			branch, below = "└─ ", "   "
		}
		printTree(w, c, rest+branch, rest+below)
	}
}

// firstOf is the beginning of a text that would make a line of a tree too long.
func firstOf(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return strings.TrimSpace(string(r[:most])) + ellipsis
	}
	return text
}

// chain are the runs that a run works for, the first one first, and itself.
func chain(ctx context.Context, st ledger.Store, run events.RunID) ([]chainView, error) {
	var out []chainView
	for id := run; !id.IsZero() && len(out) <= ledger.MaxDepth; {
		r, err := st.Run(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			break // older than what is kept
		}
		if err != nil {
			return nil, err
		}
		out = append(out, chainView{r.ID, r.Agent})
		id = r.Parent
	}
	slices.Reverse(out)
	return out, nil
}

// chainView is one run on the way from who was asked to who asks.
type chainView struct {
	Run   events.RunID `json:"run"`
	Agent string       `json:"agent"`
}
