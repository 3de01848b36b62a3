package ledgertest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func testArtifacts(t *testing.T, h Harness) {
	a, b := start(t, h), start(t, h, ofTenant("other"))
	judged := func(a *actor, name string, revision int, ok bool) {
		p := events.ArtifactValidationFinished{Turn: revision + 1, Artifact: name, Revision: revision, OK: ok, Content: events.Hash{byte(revision + 1)}, Bytes: 3}
		if !ok {
			p.Validator, p.Issues = "v", []events.ArtifactIssue{{Path: "/a", Message: "is <missing>"}}
		}
		a.note(p)
	}
	a.opening()
	judged(a, "notes", 0, false)
	judged(a, "notes", 1, true)
	a.note(events.ArtifactValidationFinished{Turn: 3, Artifact: "other", Error: &events.ErrorInfo{Kind: "validator", Message: "panicked"}})
	b.opening()
	judged(b, "notes", 0, true)
	h.project(t, append(a.sent(), b.sent()...)...)
	if err := h.Store.Rebuild(t.Context(), a.run.ID); err != nil { // gives the same rows
		t.Fatal(err)
	}
	list := func(f ledger.ArtifactFilter) (got []string) {
		t.Helper()
		for {
			page, err := h.Store.Artifacts(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range page {
				owner := "a"
				if v.Run == b.run.ID {
					owner = "b"
				}
				got = append(got, fmt.Sprintf("%s %s %d turn %d %s by %q %s content %t %d", owner, v.Name, v.Revision, v.Turn, v.Verdict, v.Validator, v.Issues, !v.Content.IsZero(), v.Bytes))
				f.BeforeRun, f.BeforeSeq = v.Run, v.Seq
			}
			if f.Limit == 0 || len(page) < f.Limit {
				return got
			}
		}
	}
	const (
		refused  = `a notes 0 turn 1 refused by "v" [{"path":"/a","message":"is <missing>"}] content true 3`
		accepted = `a notes 1 turn 2 accepted by "" [] content true 3`
		none     = `a other 0 turn 3 none by "" [{"path":"validator","message":"panicked"}] content false 0`
		foreign  = `b notes 0 turn 1 accepted by "" [] content true 3`
	)
	for _, tt := range []struct {
		name string
		f    ledger.ArtifactFilter
		want []string
	}{
		{"all, in pages", ledger.ArtifactFilter{Limit: 2}, []string{foreign, none, accepted, refused}},
		{"of a run", ledger.ArtifactFilter{Run: a.run.ID}, []string{none, accepted, refused}},
		{"of a name", ledger.ArtifactFilter{Name: "notes"}, []string{foreign, accepted, refused}},
		{"of a tenant", ledger.ArtifactFilter{Tenant: "other"}, []string{foreign}},
		{"of a verdict", ledger.ArtifactFilter{Verdict: ledger.VersionRefused}, []string{refused}},
	} {
		if d := cmp.Diff(tt.want, list(tt.f)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}
