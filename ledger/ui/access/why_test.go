package access_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

// TestWaitsAreScoped: of what a run waits for, nothing is shown that is another's.
func TestWaitsAreScoped(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		ctx, seal := t.Context(), redact.New(redact.Config{})
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		submit := func(owner, key string, share bool) ledger.Run {
			t.Helper()
			in, err := seal.JSON(json.RawMessage(`{}`))
			check(err)
			r, _, err := st.Submit(ctx, ledger.Submission{Tenant: "acme", Owner: owner, Agent: "a", Queue: "q", SessionID: "s-" + owner, Continue: share, ClientKey: key, Input: in, InputMAC: []byte("mac")})
			check(err)
			_, err = st.Claim(ctx, ledger.ClaimRequest{Worker: "w-" + owner, Queues: []string{"q"}, TTL: time.Minute, Limit: 1})
			check(err)
			return r
		}
		limit := events.PicoUSD(5)
		for _, k := range []ledger.BudgetKey{
			{Tenant: "acme", Kind: ledger.BudgetTenant, Period: ledger.PerTotal},
			{Tenant: "acme", Kind: ledger.BudgetOwner, Name: "ann", Period: ledger.PerTotal},
			{Tenant: "acme", Kind: ledger.BudgetOwner, Name: "bob", Period: ledger.PerTotal},
		} {
			_, err := st.SetBudget(ctx, ledger.BudgetChange{BudgetKey: k, Limit: &limit, By: "root"})
			check(err)
		}
		for _, tool := range []string{"refund", ledger.EveryTool} {
			_, err := st.SetSwitch(ctx, ledger.SwitchChange{Tenant: "acme", Tool: tool, Mode: ledger.SwitchPaused, By: "root", Reason: "r"})
			check(err)
		}
		mine, others := submit("ann", "1", true), submit("bob", "2", false)
		for _, c := range []struct {
			owner                      string
			session, budgets, switches int
			counted                    bool
		}{{"", 1, 2, 2, true}, {"ann", 1, 1, 1, false}} {
			r := access.Scoped(st, access.Principal{Owner: c.owner, Scopes: readAll.Scopes})
			hs, err := r.Holders(ctx, mine.ID)
			check(err)
			ss, err := r.Session(ctx, mine.ID)
			check(err)
			bs, err := r.Budgets(ctx, mine.ID)
			check(err)
			ws, err := r.Switches(ctx, mine.ID)
			check(err)
			q, err := r.Queue(ctx, mine.ID)
			check(err)
			if len(ss) != c.session || len(bs) != c.budgets || len(ws) != c.switches || q.Queue != "q" || (q.Queued+q.Running+q.Behind > 0) != c.counted {
				t.Errorf("owner %q: %d of the session, budgets %v, switches %v, queue %+v; want %+v", c.owner, len(ss), bs, ws, q, c)
			}
			if c.owner != "" && slices.ContainsFunc(hs, func(h ledger.Run) bool { return h.Owner != c.owner }) || len(hs) == 0 {
				t.Errorf("owner %q sees holders %v", c.owner, hs)
			}
			if c.owner == "" {
				continue
			}
			if _, err := r.Budgets(ctx, others.ID); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("budgets of another's run: %v", err)
			}
		}
	})
}
