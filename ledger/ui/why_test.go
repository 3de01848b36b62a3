package ui

import (
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// TestPageSaysWhy: a run, a call and the inbox say why, and lead to where something
// can be done about it.
func TestPageSaysWhy(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		mine := ledgertest.FillSample(t, h.Store, "acme", "ann")
		_, one, two := ledgertest.Awaited(t, h.Store, "acme", "bob", "ann")
		s := open(t, h)
		run := "/runs/" + mine.Run.ID.String()
		says(t, s.get(run), "is parked since", "it waits for somebody to say whether one of its calls took effect",
			"Nobody can know whether call", `href="/inbox#doubt-`+mine.Effect.String()[:16]+`"`, "Settle it in the inbox")
		says(t, s.get(run+"/calls/t2.c0"), "Nobody can know whether call "+mine.Run.ID.String()+"/t2.c0", "Settle it in the inbox")
		says(t, s.get(run+"/calls/t2.c1"), "has not begun.", `href="/inbox#ask-`+mine.Approval.String()+`"`, "Decide in the inbox")
		inbox := s.get("/inbox")
		says(t, inbox, `id="ask-`+mine.Approval.String()+`"`)
		says(t, inbox, `id="doubt-`+mine.Effect.String()[:16]+`"`, "Why nobody can know", "An attempt may still be acting until")
		// A run of ann's waits for an effect of bob's.
		waits := "/runs/" + two.ID.String()
		says(t, s.get(waits), "an effect that another run has begun or has in doubt", "The effect belongs to call "+one.ID.String())
		s.who = access.Principal{Name: "ann", Tenant: "acme", Owner: "ann", Scopes: []access.Scope{access.Read}}
		text := s.get(waits)
		says(t, text, "an effect that another run has begun or has in doubt", "The effect belongs to a run that you may not see.")
		if strings.Contains(text, one.ID.String()) || strings.Contains(text, "bob") {
			t.Errorf("%s names the run of another: %s", waits, text)
		}
	})
}

// TestWhyIsSaidOnce: the words of reasons are in one place.
func TestWhyIsSaidOnce(t *testing.T) {
	for _, dir := range []string{".", "../../cmd/ledgerctl"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			b, err := os.ReadFile(dir + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), "went away before it said how it ended") {
				t.Errorf("%s/%s has words of its own for a cause: internal/telling has them", dir, f.Name())
			}
		}
	}
}
