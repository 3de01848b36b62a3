//go:build daybook_faults

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

// errand is a way through the points that a lone refund does not come by: waits,
// decisions, money, forks, further attempts and reconciling. Some are a worker's
// transactions and some an operator's command, which is a process of its own.
type errand struct {
	name    string
	points  []string
	operate bool // the points are ledgerctl's
	apart   bool // on PostgreSQL and NATS only
	run     func(t *testing.T, c *errandCase)
}

var errands = []errand{
	{"waits", []string{"handoff.before_commit", "handoff.after_commit", "child.before_commit", "child.after_commit"}, false, false, waitingErrand},
	{"signal", []string{"signal.before_commit", "signal.after_commit"}, true, false, waitingErrand},
	{"approval", []string{"approval.before_commit", "approval.after_commit"}, true, false, approvalErrand},
	{"budget", []string{"reserve.before_commit", "reserve.after_commit", "cost.before_commit", "cost.after_commit"}, false, false, budgetErrand},
	{"retry", []string{"retry.before_commit"}, false, false, retryErrand},
	{"requeue", []string{"requeue.before_commit", "requeue.after_commit"}, true, false, retryErrand},
	{"fork", []string{"fork.before_commit", "fork.after_commit"}, true, false, forkErrand},
	{"artifact", []string{"artifact.after_blob", "artifact.before_event"}, false, false, artifactErrand},
	{"memory", []string{"memory.before_commit", "memory.after_commit"}, false, true, memoryErrand},
	{"reconcile", []string{"reopen.before_commit", "reopen.after_commit", "reconcile.before_commit", "reconcile.after_commit"}, true, true, reconcileErrand},
}

// errandCase is one errand with something done to it at one point.
type errandCase struct {
	*errand
	point, action string
	at            place

	site   *site
	prov   *provider
	queue  string
	counts string
	calm   bool // nothing is done to anybody any more
}

func (c *errandCase) title() string {
	return strings.ReplaceAll(fmt.Sprintf("%s/%s=%s", c.at.name, c.point, c.action), ":", "_")
}

// errandCases takes every point once, with a kill, on one kind of site; with
// DAYBOOK_E2E_ALL every action on both.
func errandCases() (cases []*errandCase) {
	all := os.Getenv("DAYBOOK_E2E_ALL") != ""
	n := 0
	for i := range errands {
		e := &errands[i]
		for _, point := range e.points {
			n++
			for j, at := range places {
				if e.apart && !at.shared || !all && !e.apart && j != n%2 {
					continue
				}
				actions := []string{"kill"}
				if all {
					actions = append(actions, "panic", "err:reset")
					if strings.HasSuffix(point, "after_commit") {
						actions = append(actions, "exec_and_timeout")
					}
				}
				for _, a := range actions {
					cases = append(cases, &errandCase{errand: e, point: point, action: a, at: at})
				}
			}
		}
	}
	return cases
}

// TestFailpointErrands kills workers and operators' commands inside the
// transactions of waiting, deciding, paying and repairing, and at once after
// them. Whoever comes next, or the same command again, brings it to its end:
// everything once, no money lost, the record whole.
func TestFailpointErrands(t *testing.T) {
	for _, b := range []string{"e2e/worker", "cmd/ledgerctl"} {
		binary(t, b)
	}
	only := regexp.MustCompile(os.Getenv("DAYBOOK_E2E_POINTS"))
	todo := make(chan *errandCase)
	var slots sync.WaitGroup
	for range atOnce {
		slots.Go(func() {
			for c := range todo {
				t.Run(c.title(), c.test)
			}
		})
	}
	for _, c := range errandCases() {
		if only.MatchString(c.title()) {
			todo <- c
		}
	}
	close(todo)
	slots.Wait()
}

func (c *errandCase) test(t *testing.T) {
	c.site = c.at.open(t)
	c.prov = c.site.provider(t, fenced)
	c.queue = "errands"
	c.counts = filepath.Join(c.site.logs, "counts")
	c.run(t, c)
	counts, err := fault.Counts(c.counts)
	if err != nil {
		t.Fatal(err)
	}
	if counts[c.point].Fired == 0 {
		t.Errorf("%s never happened", c.point)
	}
	if err := c.site.whole(t, events.RunID{}); err != nil {
		t.Errorf("the record: %v", err)
	}
}

func (c *errandCase) rule() string { return c.point + "=" + c.action + "@1" }

func (c *errandCase) submit(t *testing.T, s runtime.Submit) ledger.Run {
	t.Helper()
	s.Queue, s.Tenant, s.ClientKey, s.Owner = c.queue, "acme", "one", "support"
	if s.Input == nil {
		s.Input = map[string]string{"order_id": "ORD-1001", "amount": "49.90", "currency": "EUR", "note": "Broken."}
	}
	r, _, err := runtime.NewClient(c.site.store, c.site.red, nil).Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// work keeps a worker at it until there is nothing left to wait for. If it dies
// of the rule another one takes over, without a rule.
func (c *errandCase) work(t *testing.T, more []string, done func() error) {
	t.Helper()
	w := worker{queue: c.queue, counts: c.counts, ttl: 2 * time.Second, more: more, embeds: true}
	if !c.operate && !c.calm {
		w.faults = c.rule()
	}
	p := c.site.start(t, c.prov, w)
	until(t, "come to where it waits", func() error {
		if p.ended() {
			if !p.killed() && (c.action == "kill" || p.err != nil) {
				return errStop{fmt.Errorf("the worker ended with %w:\n%s", p.err, p.tail())}
			}
			w.faults = ""
			p = c.site.start(t, c.prov, w)
		}
		return done()
	})
	p.stop(t)
}

// operator runs a ledgerctl command with the rule, and again without it if it
// was not heard of. What an operator has done cannot be done again, and says so.
func (c *errandCase) operator(t *testing.T, done error, args ...string) {
	t.Helper()
	where := []string{"--dir", c.site.dir}
	if c.site.dir == "" {
		where = []string{"--postgres", c.site.dsn}
	}
	try := func(rule string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary(t, "cmd/ledgerctl"), append(where, args...)...)
		cmd.Env = append(os.Environ(), "DAYBOOK_FAULTS="+rule, "DAYBOOK_FAULT_COUNTS="+c.counts, "DAYBOOK_FAULT_SEED=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	rule := ""
	if c.operate {
		rule = c.rule()
	}
	out, err := try(rule)
	if err == nil {
		if c.operate {
			t.Errorf("ledgerctl %v succeeded in spite of %s: %s", args, rule, out)
		}
		return
	}
	again, err := try("")
	if err != nil && (done == nil || !strings.HasSuffix(c.point, "after_commit") || !strings.Contains(again, done.Error())) {
		t.Errorf("ledgerctl %v again: %v: %s (first: %s)", args, err, again, out)
	}
}

func (c *errandCase) read(t *testing.T, id events.RunID) ledger.Run {
	t.Helper()
	r, err := c.site.store.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ended wants a run at its end, with everything in its record.
func (c *errandCase) ended(t *testing.T, id events.RunID) error {
	return errors.Join(c.site.resting(t, id, false), c.site.settled(t, id), c.site.whole(t, id))
}

func (c *errandCase) parked(t *testing.T, id events.RunID, reason events.ParkReason) error {
	if r := c.read(t, id); r.State != ledger.Parked || r.ParkReason != reason {
		return fmt.Errorf("run is %s %s %s, want parked for %s", r.State, r.ParkReason, r.ParkDetail, reason)
	}
	return nil
}

// told counts the events of a type in a run's history.
func (c *errandCase) told(t *testing.T, id events.RunID, want events.Type) (n int) {
	t.Helper()
	for _, e := range c.site.history(t, id) {
		if e.Type == want {
			n++
		}
	}
	return n
}

// waitingErrand delegates to a child, waits for a signal and ends.
func waitingErrand(t *testing.T, c *errandCase) {
	r := c.submit(t, runtime.Submit{Agent: "errands"})
	c.work(t, nil, func() error { return c.parked(t, r.ID, events.ParkSignal) })
	c.operator(t, nil, "signal", r.ID.String(), "go", "--key", "k1")
	c.calm = true
	c.work(t, nil, func() error { return c.ended(t, r.ID) })
	if got := c.read(t, r.ID); got.State != ledger.Finished {
		t.Errorf("run is %s by %s: %s", got.State, got.StoppedBy, got.Error)
	}
	children := 1
	if c.point == "child.before_commit" && c.action == "panic" {
		children = 0 // a tool that panics is told as failed
	}
	for typ, n := range map[events.Type]int{"child_started": children, "child_finished": children, "signal_received": 1} {
		if got := c.told(t, r.ID, typ); got != n {
			t.Errorf("%d events %s, want %d", got, typ, n)
		}
	}
	rs, err := c.site.store.Summaries(t.Context(), ledger.RunFilter{Agent: "leaf"})
	if err != nil || len(rs) != children || children > 0 && (rs[0].State != ledger.Finished || rs[0].Parent != r.ID) {
		t.Errorf("children: %+v, %v", rs, err)
	}
	hs, err := c.site.store.Handoffs(t.Context(), ledger.HandoffFilter{Run: r.ID, States: []ledger.HandoffState{ledger.HandoffOpen}})
	if err != nil || len(hs) != 0 {
		t.Errorf("open hand-offs %+v, %v", hs, err)
	}
}

// artifactErrand writes something that is refused once.
func artifactErrand(t *testing.T, c *errandCase) {
	r := c.submit(t, runtime.Submit{Agent: "writer", Input: "write"})
	c.work(t, nil, func() error { return errors.Join(c.ended(t, r.ID), c.site.fed(t)) })
	if got := c.read(t, r.ID); got.StoppedBy != events.StoppedByArtifactFinished {
		t.Errorf("run is %s by %s: %s", got.State, got.StoppedBy, got.Error)
	}
	vs, err := c.site.store.Artifacts(t.Context(), ledger.ArtifactFilter{Run: r.ID})
	if err != nil || len(vs) != 2 || vs[0].Verdict != ledger.VersionAccepted || vs[1].Verdict != ledger.VersionRefused || vs[0].Content == vs[1].Content {
		t.Fatalf("versions %+v, %v", vs, err)
	}
	for i, want := range []string{"a second draft", "a first draft"} {
		if b, _, err := c.site.store.Blob(t.Context(), "acme", vs[i].Content); err != nil || string(b) != want {
			t.Errorf("revision %d is %q, %v; want %q", vs[i].Revision, b, err, want)
		}
	}
	if n, m := c.told(t, r.ID, "artifact_revision_started"), c.told(t, r.ID, "artifact_finished"); n != 1 || m != 1 {
		t.Errorf("%d revisions, %d ends; want one each", n, m)
	}
}

// approvalErrand has a refund approved.
func approvalErrand(t *testing.T, c *errandCase) {
	r := c.submit(t, runtime.Submit{Agent: "refunds"})
	c.work(t, []string{"--approve"}, func() error { return c.parked(t, r.ID, events.ParkApproval) })
	as, err := c.site.store.Approvals(t.Context(), ledger.ApprovalFilter{Run: r.ID, Open: true})
	if err != nil || len(as) != 1 {
		t.Fatalf("approvals %+v, %v", as, err)
	}
	c.operator(t, ledger.ErrDecided, "approve", as[0].ID.String(), "--reason", "looked at it")
	c.work(t, []string{"--approve"}, func() error { return c.ended(t, r.ID) })
	e, _ := c.site.effect(t, r.ID)
	if n := c.prov.once(t); n != 1 || e.State != events.EffectApplied || c.told(t, r.ID, "approval_decided") != 1 {
		t.Errorf("%d refunds, effect %s, decided %d times", n, e.State, c.told(t, r.ID, "approval_decided"))
	}
}

// budgetErrand pays for models and a refund out of the run's own budget.
func budgetErrand(t *testing.T, c *errandCase) {
	limit := 5 * events.USD
	r := c.submit(t, runtime.Submit{Agent: "refunds", Budget: &limit})
	c.work(t, []string{"--price", "1000000"}, func() error { return errors.Join(c.ended(t, r.ID), c.site.fed(t)) })
	bs, err := c.site.store.Budgets(t.Context(), ledger.BudgetFilter{Kind: ledger.BudgetRun, Name: r.ID.String()})
	if err != nil || len(bs) != 1 {
		t.Fatalf("budgets %+v, %v", bs, err)
	}
	b := bs[0]
	if n := c.prov.once(t); n != 1 || c.read(t, r.ID).State != ledger.Finished {
		t.Errorf("%d refunds, run %s", n, c.read(t, r.ID).State)
	}
	rows, err := c.site.store.Costs(t.Context(), ledger.CostFilter{Run: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	billed := events.PicoUSD(rows[0].ModelCost.Int64() + rows[0].ToolCost.Int64())
	// What was reserved by a worker that died is unsettled; all the rest is settled
	// at what the rows say, however often it was said. Only an answer that was paid
	// and settled, and died before the journal had it, has a row that says that
	// nobody knows, while the budget does.
	died := c.action == "kill" || c.action == "panic"
	lost := died && c.point == "cost.after_commit" && rows[0].Unsettled == 1
	if b.Reserved != 0 || b.Committed() > limit || b.Spent+b.Unsettled < billed || b.Spent > billed && !lost || b.Spent < events.USD {
		t.Errorf("spent %s, reserved %s, unsettled %s, billed %s", b.Spent, b.Reserved, b.Unsettled, billed)
	}
	if (!died || c.point == "reserve.before_commit") && b.Unsettled != 0 {
		t.Errorf("unsettled %s although nobody died holding it", b.Unsettled)
	}
}

// retryErrand fails twice, is dead, and is queued once more by a person.
func retryErrand(t *testing.T, c *errandCase) {
	first := c.submit(t, runtime.Submit{Agent: "moody", Input: "go"})
	dead := func(id events.RunID) (events.RunID, error) {
		for {
			r := c.read(t, id)
			if !r.DeadAt.IsZero() {
				return id, c.ended(t, id)
			}
			if r.Successor.IsZero() {
				return id, fmt.Errorf("run %s is %s", id, r.State)
			}
			id = r.Successor
		}
	}
	c.work(t, nil, func() error { _, err := dead(first.ID); return err })
	second, err := dead(first.ID)
	if err != nil || second != c.read(t, first.ID).Successor {
		t.Fatalf("tried again as %s, dead is %s, %v", c.read(t, first.ID).Successor, second, err)
	}
	c.operator(t, ledger.ErrNotDead, "runs", "requeue", second.String(), "--reason", "it may work now")
	c.calm = true
	c.work(t, nil, func() error { _, err := dead(second); return err })
	third, _ := dead(second)
	rs, err := c.site.store.Summaries(t.Context(), ledger.RunFilter{Agent: "moody"})
	if err != nil || len(rs) != 3 || third == second {
		t.Errorf("%d runs, want three attempts: %v", len(rs), err)
	}
}

// forkErrand forks a run that has paid: the fork pays nothing.
func forkErrand(t *testing.T, c *errandCase) {
	r := c.submit(t, runtime.Submit{Agent: "refunds"})
	c.work(t, nil, func() error { return c.ended(t, r.ID) })
	c.operator(t, nil, "fork", r.ID.String(), "--from", "2", "--effects", "replay", "--key", "f1")
	rs, err := c.site.store.Summaries(t.Context(), ledger.RunFilter{Agent: "refunds"})
	if err != nil || len(rs) != 2 || rs[0].ForkOf != r.ID {
		t.Fatalf("runs %+v, %v", rs, err)
	}
	c.work(t, nil, func() error { return errors.Join(c.ended(t, rs[0].ID), c.ended(t, r.ID)) })
	if n := c.prov.once(t); n != 1 || c.read(t, rs[0].ID).State != ledger.Finished {
		t.Errorf("%d refunds, the fork is %s", n, c.read(t, rs[0].ID).State)
	}
}

// reconcileErrand loses an effect as a restored database does, and reconciles.
// RELIABILITY row 16.
func reconcileErrand(t *testing.T, c *errandCase) {
	r := c.submit(t, runtime.Submit{Agent: "refunds"})
	c.work(t, nil, func() error { return errors.Join(c.ended(t, r.ID), c.site.fed(t)) })
	conn, err := pgx.Connect(t.Context(), c.site.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, table := range []string{"effect_attempts", "effects"} {
		if _, err := conn.Exec(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.site.store.HoldBack(t.Context(), "restored by a test"); err != nil {
		t.Fatal(err)
	}
	c.operator(t, nil, "reconcile", "--nats", c.site.nats.URL())
	if err := c.site.store.RolledBack(t.Context()); err != nil {
		t.Errorf("still refused: %v", err)
	}
	e, ok := c.site.effect(t, r.ID)
	if n := c.prov.once(t); n != 1 || !ok || e.State != events.EffectApplied || e.Attempts != 1 {
		t.Errorf("%d refunds, effect %+v", n, e)
	}
}
