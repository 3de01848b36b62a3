package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *app) sessionsCommand() *cobra.Command {
	c := group("sessions", "Lists sessions, and shows one as a conversation: runs that share a transcript")
	c.AddCommand(a.sessionsListCommand(), a.sessionsShowCommand())
	return c
}

type sessionView struct {
	Session   string       `json:"session"`
	Tenant    string       `json:"tenant"`
	Owner     string       `json:"owner,omitempty"`
	Places    uint64       `json:"places"` // runs that were submitted to it
	Head      events.RunID `json:"head,omitzero"`
	CreatedAt time.Time    `json:"created_at"`
	LastAt    time.Time    `json:"last_at"`
	ErasedAt  time.Time    `json:"erased_at,omitzero"`
}

func viewOfSession(s ledger.Session) sessionView {
	return sessionView{s.ID, s.Tenant, s.Owner, s.Places, s.Head, s.CreatedAt, s.LastAt, s.ErasedAt}
}

func (a *app) sessionColumns() []column[sessionView] {
	return []column[sessionView]{
		{name: "tenant", mixed: true, text: func(v sessionView) string { return v.Tenant }},
		{name: "session", keep: true, text: func(v sessionView) string { return v.Session }},
		{name: "owner", text: func(v sessionView) string { return v.Owner }},
		{name: "places", right: true, text: func(v sessionView) string { return strconv.FormatUint(v.Places, 10) }},
		{name: "head", keep: true, text: func(v sessionView) string {
			if v.Head.IsZero() {
				return "-"
			}
			return v.Head.String()
		}},
		{name: "created", drop: 1, text: func(v sessionView) string { return stamp(v.CreatedAt) }, raw: func(v sessionView) string { return exact(v.CreatedAt) }},
		{name: "last", text: func(v sessionView) string { return stamp(v.LastAt) }, raw: func(v sessionView) string { return exact(v.LastAt) }},
		{name: "note", mixed: true, text: func(v sessionView) string {
			if v.ErasedAt.IsZero() {
				return ""
			}
			return "its owner was erased: nobody continues it"
		}},
	}
}

func (a *app) sessionsListCommand() *cobra.Command {
	var p page
	var f ledger.SessionFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists sessions, the one that was last used first",
		Long: `Lists sessions whose runs share a transcript (runner submit --session S --continue), the
one that was last used first. Runs that only name a session are in runs list --session.

places  runs that were submitted to it; a run that is tried again has one
head    the run that the next one goes on from`,
		Example: `  ledgerctl sessions list --owner u-17
  ledgerctl sessions list -o csv`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				if p.after != "" {
					tenant, id, ok := strings.Cut(p.after, "/")
					if !ok {
						return usagef("--after %q: want TENANT/SESSION of the last one seen", p.after)
					}
					last, err := a.session(ctx, st, tenant, id)
					if err != nil {
						return err
					}
					f.Before = &last
				}
				return listPage(a, c, nil, p, lister[ledger.Session, sessionView]{
					read: func(n int, after *ledger.Session) ([]ledger.Session, error) {
						q := f
						if q.Limit = n; after != nil {
							q.Before = after
						}
						return st.Sessions(ctx, q)
					},
					view:  func(s ledger.Session) (sessionView, error) { return viewOfSession(s), nil },
					place: func(s ledger.Session) string { return s.Tenant + "/" + s.ID },
				}, a.sessionColumns(), "no sessions (runner submit -h: --session, --continue)")
			})
		},
	}
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant's")
	c.Flags().StringVar(&f.Owner, "owner", "", "only this owner's")
	p.add(c, "TENANT/SESSION")
	listFlags[sessionView](a, c)
	return c
}

// session reads one.
func (a *app) session(ctx context.Context, st ledger.Store, tenant, id string) (ledger.Session, error) {
	s, err := st.Session(ctx, tenant, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return s, fmt.Errorf("no session %q of tenant %q whose runs share a transcript: %w (%s)", id, tenant, ledger.ErrNotFound, a.command("sessions", "list"))
	}
	return s, err
}
