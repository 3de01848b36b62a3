package main

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// budgetView is a budget; committed is what counts against its limit.
type budgetView struct {
	Tenant    string              `json:"tenant"`
	Kind      ledger.BudgetKind   `json:"kind"`
	Name      string              `json:"name,omitempty"`
	Period    ledger.BudgetPeriod `json:"period"`
	Day       string              `json:"day,omitempty"`
	Limit     *events.PicoUSD     `json:"limit"`
	Spent     events.PicoUSD      `json:"spent"`
	Reserved  events.PicoUSD      `json:"reserved"`
	Unsettled events.PicoUSD      `json:"unsettled"`
	Left      *events.PicoUSD     `json:"left"`
	Unpriced  int64               `json:"unpriced"`
	SetBy     string              `json:"set_by"`
	SetAt     time.Time           `json:"set_at"`
}

func viewOfBudget(b ledger.Budget) budgetView {
	v := budgetView{
		Tenant: b.Tenant, Kind: b.Kind, Name: b.Name, Period: b.Period, Day: b.Day, Limit: b.Limit, Spent: b.Spent,
		Reserved: b.Reserved, Unsettled: b.Unsettled, Unpriced: b.Unpriced, SetBy: b.SetBy, SetAt: b.SetAt,
	}
	if b.Limit != nil {
		left := *b.Limit - b.Committed()
		v.Left = &left
	}
	return v
}

// openView is an attempt whose cost nobody knows yet.
type openView struct {
	Attempt events.ID      `json:"attempt"`
	Run     events.RunID   `json:"run"`
	What    string         `json:"what"`
	State   string         `json:"state"`
	Held    events.PicoUSD `json:"held"`
	Since   time.Time      `json:"since"`
}

// budgetFlags name budgets.
type budgetFlags struct{ tenant, owner, run, per string }

func (f *budgetFlags) add(c *cobra.Command, tenant string) {
	c.Flags().StringVar(&f.tenant, "tenant", tenant, "tenant")
	c.Flags().StringVar(&f.owner, "owner", "", "owner")
	c.Flags().StringVar(&f.run, "run", "", "run")
}

func (a *app) budgetsCommand() *cobra.Command {
	var f budgetFlags
	var open bool
	var p page
	c := &cobra.Command{
		Use:   "budgets",
		Short: "Lists what may be spent, what is and what is left, in US dollars",
		Long: `Lists budgets, in US dollars. What a model call or a priced tool call may cost is
reserved before it is made and settled at what it cost after it. Unsettled is reserved for
calls whose outcome nobody knows: it counts until evidence or a person settles it
(--open lists them). Unpriced calls have no known price: the limit does not cover them.
A budget counts from when it was set; one per day begins anew at 00:00 UTC.`,
		Example: `  ledgerctl budgets
  ledgerctl budgets --open
  ledgerctl budgets set --owner ann --limit 10.00 --per day
  ledgerctl budgets settle 01KF0HKTV01S1D9JQ8GS4GHR5R --cost 0.01`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.budgets(c, args, f, open, p) },
	}
	f.add(c, "")
	c.Flags().BoolVar(&open, "open", false, "list the calls that are not settled instead")
	p.add(c, "this budget, written TENANT/KIND/NAME/PERIOD")
	listFlags[budgetView](a, c)
	c.AddCommand(a.budgetsSetCommand(), a.budgetsSettleCommand())
	return c
}

func (a *app) budgets(c *cobra.Command, args []string, f budgetFlags, open bool, p page) error {
	if err := p.check(); err != nil {
		return err
	}
	if f.owner != "" && f.run != "" {
		return usagef("--owner and --run exclude each other")
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		q := ledger.BudgetFilter{Tenant: f.tenant, Limit: p.limit + 1}
		if f.owner != "" {
			q.Kind, q.Name = ledger.BudgetOwner, f.owner
		}
		if f.run != "" {
			r, err := a.readRun(ctx, st, f.run)
			if err != nil {
				return err
			}
			q.Kind, q.Name = ledger.BudgetRun, r.Root.String()
		}
		if open {
			return a.openReservations(c, st, q)
		}
		if p.after != "" {
			var err error
			if q.After, err = parseBudgetKey(p.after); err != nil {
				return err
			}
		}
		return listPage(a, c, args, p, lister[ledger.Budget, budgetView]{
			read: func(n int, after *ledger.Budget) ([]ledger.Budget, error) {
				q := q
				if q.Limit = n; after != nil {
					q.After = after.BudgetKey
				}
				return st.Budgets(ctx, q)
			},
			view: func(b ledger.Budget) (budgetView, error) { return viewOfBudget(b), nil },
			place: func(b ledger.Budget) string {
				return strings.Join([]string{b.Tenant, string(b.Kind), b.Name, string(b.Period)}, "/")
			},
		}, budgetColumns(), "no budgets: "+a.command("budgets", "set", "-h"))
	})
}

// parseBudgetKey reads TENANT/KIND/NAME/PERIOD; a name may hold slashes.
func parseBudgetKey(s string) (ledger.BudgetKey, error) {
	parts := strings.Split(s, "/")
	n := len(parts)
	if n < 4 {
		return ledger.BudgetKey{}, usagef("--after %q: want TENANT/KIND/NAME/PERIOD, as the last page said", s)
	}
	return ledger.BudgetKey{
		Tenant: parts[0], Kind: ledger.BudgetKind(parts[1]), Name: strings.Join(parts[2:n-1], "/"), Period: ledger.BudgetPeriod(parts[n-1]),
	}, nil
}

func (a *app) openReservations(c *cobra.Command, st ledger.Store, q ledger.BudgetFilter) error {
	q.Limit--
	os, err := st.OpenReservations(c.Context(), q)
	if err != nil {
		return err
	}
	views := make([]openView, len(os))
	for i, o := range os {
		views[i] = openView{Attempt: o.Attempt, Run: o.Run, What: o.What, State: o.State, Held: o.Amount, Since: o.At}
	}
	return list(a, views, []column[openView]{
		{name: "attempt", keep: true, text: func(v openView) string { return v.Attempt.String() }},
		{name: "state", text: func(v openView) string { return v.State }},
		{name: "held", keep: true, right: true, text: func(v openView) string { return v.Held.String() }},
		{name: "for", keep: true, right: true, only: true, text: func(v openView) string { return a.age(v.Since) }, at: func(v openView) time.Time { return v.Since }},
		{name: "since", mixed: true, text: func(openView) string { return "" }, raw: func(v openView) string { return exact(v.Since) }},
		{name: "run", keep: true, text: func(v openView) string { return v.Run.String() }},
		{name: "what", text: func(v openView) string { return v.What }},
	}, "every call is settled")
}

func budgetColumns() []column[budgetView] {
	amount := func(name string, f func(budgetView) *events.PicoUSD) column[budgetView] {
		return column[budgetView]{name: name, keep: true, right: true, text: func(v budgetView) string {
			if p := f(v); p != nil {
				return events.FormatPico(big.NewInt(int64(*p)))
			}
			return "none"
		}}
	}
	return []column[budgetView]{
		{name: "tenant", text: func(v budgetView) string { return v.Tenant }},
		{name: "of", keep: true, only: true, text: func(v budgetView) string { return strings.TrimSpace(string(v.Kind) + " " + v.Name) }},
		{name: "kind", mixed: true, text: func(budgetView) string { return "" }, raw: func(v budgetView) string { return string(v.Kind) }},
		{name: "name", mixed: true, text: func(budgetView) string { return "" }, raw: func(v budgetView) string { return v.Name }},
		{name: "period", text: func(v budgetView) string {
			if v.Day != "" {
				return v.Day
			}
			return string(v.Period)
		}},
		amount("limit", func(v budgetView) *events.PicoUSD { return v.Limit }),
		amount("spent", func(v budgetView) *events.PicoUSD { return &v.Spent }),
		amount("reserved", func(v budgetView) *events.PicoUSD { return &v.Reserved }),
		amount("unsettled", func(v budgetView) *events.PicoUSD { return &v.Unsettled }),
		amount("left", func(v budgetView) *events.PicoUSD { return v.Left }),
		{name: "unpriced", keep: true, right: true, text: func(v budgetView) string { return fmt.Sprint(v.Unpriced) }},
		{name: "set_by", drop: 1, text: func(v budgetView) string { return v.SetBy }},
	}
}

// readDollars reads an amount that a person typed.
func readDollars(flag, s string) (events.PicoUSD, error) {
	var p events.PicoUSD
	if err := p.UnmarshalText([]byte(s)); err != nil || p < 0 {
		return 0, usagef("--%s %q: want US dollars such as 10.00", flag, s)
	}
	return p, nil
}

func (a *app) budgetsSetCommand() *cobra.Command {
	var f budgetFlags
	var limit string
	var act acting
	c := &cobra.Command{
		Use:   "set",
		Short: "Sets what an owner, a tenant or a run may spend",
		Long: `Sets what an owner, a run (with its retries, forks and children), or else a tenant may
spend, in US dollars. The limit takes hold of the next call; calls under way are
finished. A limit of none takes it away, and spending is still counted.
` + whoActs,
		Example: `  ledgerctl budgets set --owner ann --limit 10.00
  ledgerctl budgets set --tenant acme --limit 100 --per day
  ledgerctl budgets set --run 7W6X5Y --limit 2.50`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k := ledger.BudgetKey{Tenant: f.tenant, Kind: ledger.BudgetTenant, Period: ledger.BudgetPeriod(f.per)}
			switch {
			case limit == "":
				return usagef("--limit is required: US dollars, or none")
			case f.per != string(ledger.PerTotal) && f.per != string(ledger.PerDay):
				return usagef("--per %q: want total or day", f.per)
			case f.owner != "" && f.run != "":
				return usagef("--owner and --run exclude each other")
			case f.owner != "":
				k.Kind, k.Name = ledger.BudgetOwner, f.owner
			}
			change := ledger.BudgetChange{}
			if limit != "none" {
				p, err := readDollars("limit", limit)
				if err != nil {
					return err
				}
				change.Limit = &p
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				if f.run != "" {
					r, err := a.readRun(ctx, st, f.run)
					if err != nil {
						return err
					}
					k.Kind, k.Name, k.Tenant = ledger.BudgetRun, r.ID.String(), r.Tenant
				}
				if err := k.Check(); err != nil {
					return usageError{err}
				}
				var err error
				if change.By, err = a.actor(ctx, st, act); err != nil {
					return err
				}
				change.BudgetKey = k
				b, err := st.SetBudget(ctx, change)
				if err != nil {
					return err
				}
				return a.printBudget(b)
			})
		},
	}
	f.add(c, "default")
	c.Flags().StringVar(&f.per, "per", string(ledger.PerTotal), "total, or day (UTC)")
	c.Flags().StringVar(&limit, "limit", "", "US dollars, or none (required)")
	act.person(c)
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) printBudget(b ledger.Budget) error {
	v := viewOfBudget(b)
	if a.output == formatJSON {
		return a.json(v)
	}
	if v.Left == nil {
		_, err := fmt.Fprintf(a.out, "%s has no limit; %s USD are spent, and %s held\n", clean(b.String()), b.Spent, b.Reserved+b.Unsettled)
		return err
	}
	note := ""
	if *v.Left < 0 {
		note = ": nothing more is allowed"
	}
	_, err := fmt.Fprintf(a.out, "%s may spend %s USD; %s are spent, %s held and %s left%s\n", clean(b.String()), b.Limit, b.Spent, b.Reserved+b.Unsettled, v.Left, note)
	return err
}

func (a *app) budgetsSettleCommand() *cobra.Command {
	var cost string
	var f acting
	c := &cobra.Command{
		Use:   "settle ATTEMPT",
		Short: "Says what a call cost whose outcome nobody knows",
		Long: `Says what a call cost whose outcome nobody knows, from the provider's invoice for
instance. ATTEMPT is what budgets --open shows. If evidence comes in later it counts instead.
` + whoActs,
		Example: `  ledgerctl budgets settle 01KF0HKTV01S1D9JQ8GS4GHR5R --cost 0.01`,
		Args:    oneArg("an attempt"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := events.ParseID(strings.ToUpper(args[0]))
			if err != nil {
				return usagef("%q is no attempt: %s shows them", args[0], a.command("budgets", "--open"))
			}
			if cost == "" {
				return usagef("--cost is required: US dollars, 0 if it cost nothing")
			}
			actual, err := readDollars("cost", cost)
			if err != nil {
				return err
			}
			return a.withLedger(c.Context(), func(st ledger.Store) error {
				by, err := a.actor(c.Context(), st, f)
				if err != nil {
					return err
				}
				o, err := st.SettleBy(c.Context(), id, actual, by)
				switch {
				case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrSettled):
					return fmt.Errorf("%w: %s shows what is open", err, a.command("budgets", "--open"))
				case errors.Is(err, ledger.ErrNotQuiescent):
					return fmt.Errorf("%w (its worker settles it)", err)
				case err != nil:
					return err
				}
				_, err = fmt.Fprintf(a.out, "%s of run %s cost %s USD; %s were held\n", clean(o.What), o.Run, actual, o.Amount)
				return err
			})
		},
	}
	c.Flags().StringVar(&cost, "cost", "", "US dollars (required)")
	f.person(c)
	a.changes(c)
	return c
}
