package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// approvalView is an approval as it is shown.
type approvalView struct {
	ID        string               `json:"id"`
	State     ledger.ApprovalState `json:"state"`
	Run       events.RunID         `json:"run"`
	Call      string               `json:"call"`
	Tenant    string               `json:"tenant"`
	Tool      string               `json:"tool"`
	Arguments json.RawMessage      `json:"arguments"`
	Why       string               `json:"why"`
	TaintBy   string               `json:"taint_by,omitempty"`
	Rule      string               `json:"rule,omitempty"`
	Digest    events.Hash          `json:"digest"`
	CreatedAt time.Time            `json:"created_at"`
	ExpiresAt time.Time            `json:"expires_at"`
	DecidedBy string               `json:"decided_by,omitempty"`
	Role      string               `json:"decided_role,omitempty"`
	Reason    string               `json:"reason,omitempty"`
	DecidedAt time.Time            `json:"decided_at,omitzero"`
	UsedAt    time.Time            `json:"consumed_at,omitzero"`
	// Chain are the runs that the call is made for, the first one first, and its own.
	Chain []chainView `json:"chain,omitempty"`
}

func newApprovalView(a ledger.Approval) approvalView {
	return approvalView{
		ID: a.ID.String(), State: a.State, Run: a.Run, Call: a.Call.String(), Tenant: a.Tenant, Tool: a.Tool, Arguments: a.Arguments,
		Why: a.Why, TaintBy: a.TaintBy, Rule: a.Rule, Digest: a.Digest, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
		DecidedBy: a.By, Role: a.Role, Reason: a.Reason, DecidedAt: a.DecidedAt, UsedAt: a.ConsumedAt,
	}
}

// askedBy names the agents that a call is made for, the first one first; empty for a
// run that works for nobody.
func (v approvalView) askedBy() string {
	names := make([]string, len(v.Chain))
	for i, c := range v.Chain {
		names[i] = c.Agent
	}
	return strings.Join(names, " → ")
}

func (a *app) approvalsCommand() *cobra.Command {
	var f ledger.ApprovalFilter
	var p page
	var narrow narrowing
	var run string
	var all bool
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Lists calls that wait for a person's approval, oldest first",
		Long: `Lists calls that wait for a person's approval, oldest first. An approval holds for
exactly the arguments that are shown, under the tool and the policy as they are now,
and for one execution. What nobody answers until it expires is refused.`,
		Example: `  ledgerctl approvals
  ledgerctl approvals --run 7W6X5Y --all
  ledgerctl approvals -o jsonl | jq -r .id`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			f.Open = !all
			return a.withLedger(c.Context(), func(st ledger.Store) error { return a.approvals(c, args, st, f, run, narrow, p) })
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.Tenant, "tenant", "", "tenant")
	fs.StringVar(&run, "run", "", "run")
	fs.StringVar(&f.Owner, "owner", "", "owner of the run")
	narrow.add(c)
	fs.BoolVar(&all, "all", false, "also what is decided, used or expired")
	p.add(c, "this approval")
	listFlags[approvalView](a, c)
	return c
}

func (a *app) approvals(c *cobra.Command, args []string, st ledger.Store, f ledger.ApprovalFilter, run string, narrow narrowing, p page) error {
	ctx := c.Context()
	if run != "" {
		id, err := a.findRun(ctx, st, run)
		if err != nil {
			return err
		}
		f.Run = id
	}
	if p.after != "" {
		after, err := a.findApproval(ctx, st, p.after)
		if err != nil {
			return err
		}
		f.After = after.ID
	}
	ofRun := func(ap ledger.Approval) events.RunID { return ap.Run }
	views, next, err := lister[ledger.Approval, approvalView]{
		read: func(n int, after *ledger.Approval) ([]ledger.Approval, error) {
			q := f
			if q.Limit = n; after != nil {
				q.After = after.ID
			}
			return st.Approvals(ctx, q)
		},
		keep: both(is(narrow.tool, func(ap ledger.Approval) string { return ap.Tool }), byAgent(ctx, st, narrow.agent, ofRun)),
		view: func(ap ledger.Approval) (approvalView, error) {
			v := newApprovalView(ap)
			on, err := chain(ctx, st, ap.Run)
			if len(on) > 1 {
				v.Chain = on
			}
			return v, err
		},
		place: func(ap ledger.Approval) string { return ap.ID.String() },
	}.page(a, p)
	if err != nil {
		return err
	}
	none := "nothing waits for an approval"
	if !f.Open {
		none = "no approvals"
	}
	cols := a.approvalColumns(!f.Open)
	if a.further() || slices.ContainsFunc(views, func(v approvalView) bool { return len(v.Chain) > 0 }) {
		cols = append(cols, column[approvalView]{name: "asked_by", keep: true, text: approvalView.askedBy})
	}
	if err := list(a, views, cols, none); err != nil {
		return err
	}
	if a.output == formatTable && len(views) > 0 && f.Open {
		fmt.Fprintf(a.out, "\n%s, or %s\n", a.command("approve", "ID"), a.command("deny", "ID", "--reason", "TEXT"))
	}
	if next != "" {
		a.more(c, args, next)
	}
	return nil
}

func (a *app) approvalColumns(all bool) []column[approvalView] {
	cols := []column[approvalView]{
		{name: "id", keep: true, text: func(v approvalView) string { return v.ID }},
		{name: "for", keep: true, right: true, only: true, text: func(v approvalView) string { return a.age(v.CreatedAt) }, at: func(v approvalView) time.Time { return v.CreatedAt }},
		{name: "created_at", mixed: true, text: func(approvalView) string { return "" }, raw: func(v approvalView) string { return exact(v.CreatedAt) }},
		{name: "call", text: func(v approvalView) string { return v.Run.String() + "/" + v.Call }, drop: 1},
		{name: "tool", keep: true, text: func(v approvalView) string { return v.Tool }},
		{name: "arguments", keep: true, text: func(v approvalView) string { return string(v.Arguments) }},
		{name: "why", text: func(v approvalView) string { return either(": ", v.Why, v.Rule) }},
		{name: "tenant", mixed: true, drop: 2, text: func(v approvalView) string { return v.Tenant }},
		{name: "expires", text: func(v approvalView) string { return stamp(v.ExpiresAt) }, raw: func(v approvalView) string { return exact(v.ExpiresAt) }},
	}
	if all || a.further() {
		cols = append(cols,
			column[approvalView]{name: "state", keep: true, text: func(v approvalView) string { return string(v.State) }},
			column[approvalView]{name: "by", text: func(v approvalView) string { return v.DecidedBy }},
			column[approvalView]{name: "role", mixed: true, text: func(v approvalView) string { return v.Role }},
			column[approvalView]{name: "reason", text: func(v approvalView) string { return v.Reason }})
	}
	return cols
}

// findApproval reads an approval's id, or the beginning or end of one; those
// that are open go before the others.
func (a *app) findApproval(ctx context.Context, st ledger.Store, s string) (ledger.Approval, error) {
	s = strings.ToUpper(strings.TrimSpace(s))
	if strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" || len(s) > ulidLen || len(s) < minRunPart {
		return ledger.Approval{}, usagef("%q is no approval: want the 26 characters that %s shows, or %d or more of its beginning or end",
			s, a.command("approvals"), minRunPart)
	}
	if len(s) == ulidLen {
		var id events.ID
		if err := id.UnmarshalText([]byte(s)); err != nil {
			return ledger.Approval{}, usageError{err}
		}
		ap, err := st.Approval(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			err = notThere(a.command("approvals"), "no approval %s in this ledger: %s shows those that are open", s, a.command("approvals"))
		}
		return ap, err
	}
	for _, open := range []bool{true, false} {
		var found []string
		var ap ledger.Approval
		err := eachApproval(ctx, st, ledger.ApprovalFilter{Open: open}, func(x ledger.Approval) {
			if t := x.ID.String(); strings.HasPrefix(t, s) || strings.HasSuffix(t, s) {
				found, ap = append(found, t), x
			}
		})
		switch {
		case err != nil:
			return ledger.Approval{}, err
		case len(found) == 1:
			return ap, nil
		case len(found) > 1:
			return ledger.Approval{}, fmt.Errorf("%q could be %s: give more characters", s, several(found))
		}
	}
	return ledger.Approval{}, notThere(a.command("approvals"), "no approval begins or ends with %q: %s shows those that are open", s, a.command("approvals"))
}

func eachApproval(ctx context.Context, st ledger.Store, filter ledger.ApprovalFilter, f func(ledger.Approval)) error {
	filter.Limit = 1000
	for {
		as, err := st.Approvals(ctx, filter)
		if err != nil {
			return err
		}
		for _, x := range as {
			f(x)
		}
		if len(as) < filter.Limit {
			return nil
		}
		filter.After = as[len(as)-1].ID
	}
}
