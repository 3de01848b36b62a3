package access_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

var (
	approver = access.Principal{Name: "ann", Scopes: []access.Scope{access.Read, access.Approve}, Tenant: "acme", Owner: "ann", Token: "a1b2c3d4e5f6"}
	resolver = access.Principal{Name: "rob", Scopes: []access.Scope{access.Read, access.Resolve}, Tenant: "acme", Token: "0123456789ab"}
)

func TestActsNameWhoDidThem(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		w := newWorld(t, nil)
		acts := w.guard.Acts(st, redact.New(redact.Config{}))
		a, b, c := ledgertest.FillSample(t, st, "acme", "ann"), ledgertest.FillSample(t, st, "acme", "ann"), ledgertest.FillSample(t, st, "acme", "ann")

		ctx := access.With(t.Context(), approver)
		ap, err := acts.Decide(ctx, a.Approval, events.Hash{}, true, "")
		if err != nil || ap.State != ledger.ApprovalApproved || ap.By != "ann (token a1b2c3d4e5f6)" {
			t.Errorf("approved: %+v, %v", ap, err)
		}
		if _, err := acts.Decide(ctx, a.Approval, events.Hash{}, true, ""); !errors.Is(err, ledger.ErrDecided) {
			t.Errorf("approved twice: %v", err)
		}
		if ap, err = acts.Decide(ctx, b.Approval, events.Hash{}, false, "line one\r\nline two"); err != nil || ap.Reason != "line one\nline two" {
			t.Errorf("denied: %+v, %v", ap, err)
		}

		ctx = access.With(t.Context(), resolver)
		role, err := st.Role(ctx)
		if err != nil {
			t.Fatal(err)
		}
		by := "rob (token 0123456789ab)"
		if role != "" {
			by += " (database role " + role + ")"
		}
		set, err := acts.Resolve(ctx, access.Settle{OpKey: a.Effect, State: events.EffectApplied, Note: "seen in the list", Told: "paid, key " + "dbk_" + strings.Repeat("ab", 36)})
		if err != nil || set.State != events.EffectApplied || strings.Contains(set.Result.Output, "abab") || !strings.HasPrefix(set.Result.Output, "paid") {
			t.Errorf("resolved: %+v, %v", set, err)
		}
		run, err := acts.Cancel(ctx, c.Run.ID, "wrong customer")
		if err != nil || run.CancelBy != by || run.CancelReason != "wrong customer" {
			t.Errorf("cancelled: %+v, %v; want by %q", run, err, by)
		}

		// Each is a fact of its run, and a line of the log.
		for _, want := range []struct {
			run  events.RunID
			typ  events.Payload
			text string
		}{
			{a.Run.ID, events.ApprovalDecided{}, `"by":"ann (token a1b2c3d4e5f6)`},
			{a.Run.ID, events.EffectResolved{}, `"by":"` + by},
			{c.Run.ID, events.OperatorActed{}, `"by":"` + by},
		} {
			if !hasFact(t, st, want.run, events.TypeOf(want.typ), want.text) {
				t.Errorf("run %s has no fact %s with %s", want.run, events.TypeOf(want.typ), want.text)
			}
		}
		for _, act := range []string{"approve", "deny", "resolve", "cancel"} {
			if !strings.Contains(w.log.String(), `"msg":"act","act":"`+act+`"`) {
				t.Errorf("the log does not say %s: %s", act, w.log)
			}
		}
		if !strings.Contains(w.log.String(), `"msg":"act refused","act":"approve"`) {
			t.Errorf("the log does not say what was refused: %s", w.log)
		}
	})
}

func hasFact(t *testing.T, st ledger.Store, run events.RunID, typ events.Type, text string) bool {
	t.Helper()
	fs, err := st.Pending(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if f.Type == typ && strings.Contains(string(f.Data), text) {
			return true
		}
	}
	return false
}

func TestActsAreScoped(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		w := newWorld(t, nil)
		acts := w.guard.Acts(st, redact.New(redact.Config{}))
		s := ledgertest.FillSample(t, st, "acme", "bob")
		before := snapshot(t, st, s)
		every := map[string]func(context.Context, ledgertest.Sample) error{
			"approve": func(ctx context.Context, s ledgertest.Sample) error {
				_, err := acts.Decide(ctx, s.Approval, events.Hash{}, true, "because")
				return err
			},
			"deny": func(ctx context.Context, s ledgertest.Sample) error {
				_, err := acts.Decide(ctx, s.Approval, events.Hash{}, false, "because")
				return err
			},
			"resolve": func(ctx context.Context, s ledgertest.Sample) error {
				_, err := acts.Resolve(ctx, access.Settle{OpKey: s.Effect, State: events.EffectApplied, Note: "because", Force: true})
				return err
			},
			"cancel": func(ctx context.Context, s ledgertest.Sample) error {
				_, err := acts.Cancel(ctx, s.Run.ID, "because")
				return err
			},
		}
		allScopes := access.Scopes()
		for verb, do := range every {
			need := access.Resolve
			if verb == "approve" || verb == "deny" {
				need = access.Approve
			}
			var less []access.Scope
			for _, sc := range allScopes {
				if sc != need {
					less = append(less, sc)
				}
			}
			for _, tt := range []struct {
				name string
				ctx  context.Context
				s    ledgertest.Sample
				want error
			}{
				{"nobody", t.Context(), s, access.ErrForbidden},
				{"without the scope", access.With(t.Context(), access.Principal{Name: "x", Scopes: less}), s, access.ErrForbidden},
				{"without read", access.With(t.Context(), access.Principal{Name: "x", Scopes: []access.Scope{need}}), s, ledger.ErrNotFound},
				{"another tenant's", access.With(t.Context(), access.Principal{Name: "x", Scopes: allScopes, Tenant: "other"}), s, ledger.ErrNotFound},
				{"another owner's", access.With(t.Context(), access.Principal{Name: "x", Scopes: allScopes, Tenant: "acme", Owner: "ann"}), s, ledger.ErrNotFound},
				{"what is not there", access.With(t.Context(), access.Principal{Name: "x", Scopes: allScopes}), missing(), ledger.ErrNotFound},
			} {
				if err := do(tt.ctx, tt.s); !errors.Is(err, tt.want) {
					t.Errorf("%s, %s: %v, want %v", verb, tt.name, err, tt.want)
				}
			}
		}
		if after := snapshot(t, st, s); after != before {
			t.Errorf("refused acts have changed something: %s, then %s", before, after)
		}
	})
}

// snapshot is what acts could change of a sample.
func snapshot(t *testing.T, st ledger.Store, s ledgertest.Sample) string {
	t.Helper()
	run, err := st.Run(t.Context(), s.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	ap, err := st.Approval(t.Context(), s.Approval)
	if err != nil {
		t.Fatal(err)
	}
	es, err := st.Effects(t.Context(), ledger.EffectFilter{OpKey: s.Effect})
	if err != nil || len(es) != 1 {
		t.Fatal(es, err)
	}
	fs, err := st.Pending(t.Context(), s.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, f := range fs {
		types = append(types, string(f.Type))
	}
	return strings.Join(append(types, string(run.State), string(ap.State), string(es[0].State)), " ")
}

func TestActsWantAReason(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		acts := newWorld(t, nil).guard.Acts(st, redact.New(redact.Config{}))
		s := ledgertest.FillSample(t, st, "acme", "ann")
		ctx := access.With(t.Context(), access.Principal{Name: "x", Scopes: access.Scopes()})
		for _, reason := range []string{"", "  \r\n", strings.Repeat("a", 2001), "a\x00b", "\xff", "a\x1b[2Jb"} {
			_, deny := acts.Decide(ctx, s.Approval, events.Hash{}, false, reason)
			_, resolve := acts.Resolve(ctx, access.Settle{OpKey: s.Effect, State: events.EffectApplied, Note: reason})
			_, cancel := acts.Cancel(ctx, s.Run.ID, reason)
			for _, err := range []error{deny, resolve, cancel} {
				if !errors.Is(err, access.ErrReason) {
					t.Errorf("reason %q: %v", reason, err)
				}
			}
		}
		if _, err := acts.Resolve(ctx, access.Settle{OpKey: s.Effect, State: events.EffectApplied, Note: "seen", Told: "\xff"}); !errors.Is(err, access.ErrReason) {
			t.Errorf("told: %v", err)
		}
	})
}

// TestActorsSurviveRedaction: ids of tokens look random, and the record goes
// through the redactor.
func TestActorsSurviveRedaction(t *testing.T) {
	red := redact.New(redact.Config{})
	for range 2000 {
		_, tok, err := access.Grant{Name: "ann@example.com", Scopes: []access.Scope{access.Read}}.New(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		by := access.Principal{Name: tok.Name, Token: tok.ID()}.Actor()
		if got := red.String(by); got != by {
			t.Fatalf("%q is recorded as %q", by, got)
		}
		if j, err := red.JSON(events.OperatorActed{By: by}); err != nil || !strings.Contains(string(j.Bytes()), by) {
			t.Fatalf("%q is recorded as %s, %v", by, j.Bytes(), err)
		}
	}
}

// TestATokenInAReasonIsNotKept: people paste into the wrong field.
func TestATokenInAReasonIsNotKept(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		w := newWorld(t, nil)
		acts := w.guard.Acts(st, redact.New(redact.Config{}))
		tok := w.token("ann", access.Read)
		ctx := access.With(t.Context(), access.Principal{Name: "x", Scopes: access.Scopes()})
		a, b := ledgertest.FillSample(t, st, "acme", "ann"), ledgertest.FillSample(t, st, "acme", "ann")
		ap, err := acts.Decide(ctx, a.Approval, events.Hash{}, false, "no: "+tok)
		if err != nil || strings.Contains(ap.Reason, tok[:20]) || !strings.HasPrefix(ap.Reason, "no: ") {
			t.Errorf("%q, %v", ap.Reason, err)
		}
		run, err := acts.Cancel(ctx, b.Run.ID, "stop "+tok[:40])
		if err != nil || strings.Contains(run.CancelReason, tok[:20]) || !strings.HasPrefix(run.CancelReason, "stop ") {
			t.Errorf("%q, %v", run.CancelReason, err)
		}
		if _, err := acts.Resolve(ctx, access.Settle{OpKey: a.Effect, State: events.EffectApplied, Note: "seen " + tok}); err != nil {
			t.Error(err)
		}
		for _, s := range []ledgertest.Sample{a, b} {
			fs, err := st.Pending(t.Context(), s.Run.ID)
			if err != nil || len(fs) == 0 {
				t.Fatal(fs, err)
			}
			for _, f := range fs {
				if strings.Contains(string(f.Data), tok[4:20]) {
					t.Errorf("%s keeps the token: %s", f.Type, f.Data)
				}
			}
		}
		if strings.Contains(w.log.String(), tok[4:20]) {
			t.Error("the log has the token")
		}
	})
}
