//go:build daybook_faults

package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

// memoryErrand has one run remember something, while its worker is killed inside
// the transaction that keeps it or at once after it. The call is made again by
// whoever takes over, and the note is there once; the next run recalls it, and a
// run of somebody else does not.
func memoryErrand(t *testing.T, c *errandCase) {
	run := func(agent, key, owner string) string {
		t.Helper()
		r, _, err := runtime.NewClient(c.site.store, c.site.red, nil).Submit(t.Context(), runtime.Submit{
			Agent: agent, Queue: c.queue, Tenant: "acme", ClientKey: key, Owner: owner, Input: "go",
		})
		if err != nil {
			t.Fatal(err)
		}
		c.work(t, nil, func() error { return errors.Join(c.ended(t, r.ID), c.site.fed(t)) })
		if got := c.read(t, r.ID); got.State != ledger.Finished {
			t.Fatalf("%s: run is %s by %s: %s", agent, got.State, got.StoppedBy, got.Error)
		}
		for _, e := range c.site.history(t, r.ID) {
			if f, ok := e.Data.(events.RunFinished); ok {
				return string(f.Output)
			}
		}
		t.Fatalf("%s: it has no end", agent)
		return ""
	}
	learnt := run("learner", "one", "ada")
	c.calm = true
	want := int64(1)
	if c.point == "memory.before_commit" && c.action != "kill" {
		want = 0 // the worker lives on, and the model is told that it failed
	}
	if n := c.site.number(t, `SELECT count(*) FROM memory_notes`); n != want {
		t.Errorf("%d notes, want %d", n, want)
	}
	if again := run("learner", "again", "ada"); again != learnt && c.action == "kill" {
		t.Errorf("told %q, and by another run %q", learnt, again)
	}
	if n := c.site.number(t, `SELECT count(*) FROM memory_notes`); n != 1 {
		t.Errorf("%d notes after it was remembered again", n)
	}
	if told := run("recaller", "two", "ada"); !strings.Contains(told, "They drink oolong in the afternoon.") {
		t.Errorf("the next run recalls %q", told)
	}
	if told := run("recaller", "three", "bob"); strings.Contains(told, "oolong") {
		t.Errorf("somebody else's run recalls %q", told)
	}
}
