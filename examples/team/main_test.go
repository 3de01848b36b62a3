package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/system"
)

// The test program is also the example, so that it can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "team-in" {
		if err := run(context.Background(), options{dir: os.Args[2]}, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

func TestTeam(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time it is the same run
		var out bytes.Buffer
		if err := run(t.Context(), options{dir: dir}, &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`finished: "The Boathouse is booked for 420.00 EUR. Nobody knows what it costs in all."`,
			"analyst failed: budget ", `researcher finished: finish "The Boathouse, 420.00 EUR."`,
			"lead        3 model calls  0.00215 USD", "booker      2 model calls  0.00069 USD", "researcher  2 model calls  0.00054 USD",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s\nwant %s", out.String(), want)
			}
		}
	}
	check(t, dir)
}

// The process is killed while children are running, and once more while the booking
// is under way: nothing is booked twice, no child is there twice, and the budgets say
// what the rows add up to.
func TestTeamIsKilled(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []func(ledger.Store) bool{childRuns("researcher"), childRuns("booker")} {
		var out bytes.Buffer
		c := exec.Command(self, "team-in", dir)
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		go func() { gone <- c.Wait() }()
		killed := reached(t, dir, when, gone)
		_ = c.Process.Kill()
		if err := <-gone; killed && err == nil {
			t.Error("it ended before it was killed")
		}
		if !killed {
			t.Fatalf("it never came so far: %s", out.String())
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), options{dir: dir}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "The Boathouse is booked for 420.00 EUR.") {
		t.Error(out.String())
	}
	check(t, dir)
}

// childRuns reports whether a child of an agent is under way.
func childRuns(agent string) func(ledger.Store) bool {
	return func(st ledger.Store) bool {
		rs, err := st.Summaries(context.Background(), ledger.RunFilter{Agent: agent, Limit: 10})
		for _, r := range rs {
			if err == nil && r.State == ledger.Running {
				return true
			}
		}
		return false
	}
}

// reached waits until a moment has come in a directory, or its process is gone.
func reached(t *testing.T, dir string, when func(ledger.Store) bool, gone chan error) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var st ledger.Store
	defer func() {
		if st != nil {
			_ = st.Close()
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case err := <-gone:
			gone <- err
			return false
		case <-tick.C:
		}
		if st == nil {
			if _, err := os.Stat(filepath.Join(dir, "ledger.db")); err != nil {
				continue
			}
			opened, _, err := system.OpenLedger(ctx, system.Options{Dir: dir})
			if err != nil {
				continue // it is being made
			}
			st = opened
		}
		if when(st) {
			return true
		}
	}
}

// check looks at what must hold however often the process was killed.
func check(t *testing.T, dir string) {
	t.Helper()
	booked, err := os.ReadFile(filepath.Join(dir, "bookings.txt"))
	if n := strings.Count(string(booked), "\n"); err != nil || n != 1 {
		t.Errorf("%d bookings, %v: %s", n, err, booked)
	}
	st, _, err := system.OpenLedger(t.Context(), system.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	rs, err := st.Summaries(t.Context(), ledger.RunFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	agents := map[string]int{}
	var lead events.RunID
	for _, r := range rs {
		agents[r.Agent]++
		if r.Agent == "lead" {
			lead = r.ID
		}
		if !r.State.Ended() {
			t.Errorf("run %s of %s is %s", r.ID, r.Agent, r.State)
		}
	}
	if fmt.Sprint(agents) != "map[analyst:1 booker:1 lead:1 researcher:2]" {
		t.Errorf("runs %v", agents)
	}
	// ledgerctl says the same as the budget.
	b, err := exec.Command(testenv.Build(t, "cmd/ledgerctl"), "--dir", dir, "runs", "show", lead.String(), "--tree", "-o", "json").Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	var tree struct {
		Total    string
		Children []struct{ Agent, State string }
	}
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	bs, err := st.Budgets(t.Context(), ledger.BudgetFilter{Kind: ledger.BudgetRun, Name: lead.String()})
	if err != nil || len(bs) != 1 {
		t.Fatalf("budgets %v, %v", bs, err)
	}
	total, err := events.ParsePico(tree.Total)
	if err != nil {
		t.Fatal(err)
	}
	// Of what was cut off the budget holds what it may have cost; it is in no row yet.
	if bs[0].Spent < events.PicoUSD(total.Int64()) || bs[0].Unsettled == 0 && big.NewInt(int64(bs[0].Spent)).Cmp(total) != 0 || bs[0].Reserved != 0 {
		t.Errorf("the budget says spent %s, reserved %s, unsettled %s; ledgerctl %s", bs[0].Spent, bs[0].Reserved, bs[0].Unsettled, tree.Total)
	}
	if len(tree.Children) != 4 {
		t.Errorf("%d children in the tree: %s", len(tree.Children), b)
	}
}

// While the booker waits for a person, the lead says so, and so does the approval.
func TestWhoIsAskedForWhom(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { done <- run(ctx, options{dir: dir, ask: true}, &out) }()
	var approval ledger.Approval
	if !reached(t, dir, func(st ledger.Store) bool {
		as, err := st.Approvals(ctx, ledger.ApprovalFilter{Open: true})
		if err != nil || len(as) != 1 {
			return false
		}
		approval = as[0]
		r, err := st.Run(ctx, approval.Run)
		if err != nil || r.State != ledger.Parked {
			return false
		}
		lead, err := st.Run(ctx, r.Parent)
		return err == nil && lead.State == ledger.Parked
	}, done) {
		t.Fatal("nobody asked")
	}
	ledgerctl := func(args ...string) string {
		b, err := exec.Command(testenv.Build(t, "cmd/ledgerctl"), append([]string{"--dir", dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ledgerctl %v: %v\n%s", args, err, b)
		}
		return string(b)
	}
	if got := ledgerctl("approvals"); !strings.Contains(got, "lead → booker") {
		t.Error(got)
	}
	var asked []struct{ Chain []struct{ Run, Agent string } }
	if err := json.Unmarshal([]byte(ledgerctl("approvals", "-o", "json")), &asked); err != nil || len(asked) != 1 || len(asked[0].Chain) != 2 {
		t.Fatalf("approvals %+v, %v", asked, err)
	}
	why := ledgerctl("why", asked[0].Chain[0].Run)
	for _, want := range []string{"for child run " + approval.Run.String() + " of agent booker", "waits for approval " + approval.ID.String(), "ledgerctl approve " + approval.ID.String()} {
		if !strings.Contains(why, want) {
			t.Errorf("%s\nwant %s", why, want)
		}
	}
	ledgerctl("approve", approval.ID.String())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	check(t, dir)
}
