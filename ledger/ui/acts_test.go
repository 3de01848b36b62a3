package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// guarded is a page with tokens, and a token for each grant.
func guarded(t *testing.T, h ledgertest.Harness, grants ...access.Grant) (site, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	texts := make([]string, len(grants))
	for i, g := range grants {
		text, tok, err := g.New(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := access.Add(path, tok); err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	guard, err := access.New(access.Options{Listen: "127.0.0.1:0", Tokens: path})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, h, func(o *Options) { o.Guard = guard }), texts
}

// post sends a form as a browser of the same site does, with a token.
func (s site) post(token, path string, form ...string) *http.Response {
	s.t.Helper()
	v := url.Values{}
	for i := 0; i+1 < len(form); i += 2 {
		v.Set(form[i], form[i+1])
	}
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://127.0.0.1:80"+path, strings.NewReader(v.Encode()))
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Accept", "text/html")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w.Result()
}

// see is a page as the holder of a token gets it.
func (s site) see(token, path string) (int, string) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:80"+path, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestActs(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		story := ledgertest.Tell(t, h)
		s, tokens := guarded(
			t, h, access.Grant{Name: "ann", Scopes: access.Scopes()}, access.Grant{Name: "bob", Scopes: []access.Scope{access.Read}},
			access.Grant{Name: "eve", Scopes: access.Scopes(), Tenant: "other"},
		)
		ann, bob, eve := tokens[0], tokens[1], tokens[2]

		code, page := s.see(ann, "/inbox")
		if code != http.StatusOK {
			t.Fatal(code, page)
		}
		says(t, page, "Wants an approval", "refund", "above 100 EUR a person decides", "Approve once", "In doubt", "the worker that ran it went away", "What became of it?", "Settle")
		page0 := page
		_, page = s.see(bob, "/inbox")
		if strings.Contains(page, "<form class=\"deed") {
			t.Error("who only reads is offered a form")
		}
		says(t, page, "Your token has no scope approve", "ledgerctl approve "+story.Approval.String())
		if _, page = s.see(eve, "/inbox"); !strings.Contains(page, "Nothing waits for a person") {
			t.Error("another tenant sees what waits")
		}

		approve, effect := "/approvals/"+story.Approval.String(), "/effects/"+story.Effect.String()
		asked, err := h.Store.Approval(t.Context(), story.Approval)
		if err != nil {
			t.Fatal(err)
		}
		digest := asked.Digest.String()
		says(t, page0, `name="digest" value="`+digest+`"`, `name="attempt" value="1"`)
		for name, r := range map[string]*http.Response{
			"without its call":     s.post(ann, approve, "verb", "approve"),
			"of another call":      s.post(ann, approve, "verb", "approve", "digest", strings.Repeat("ab", 32)),
			"of no attempt":        s.post(ann, effect, "state", "applied", "note", "n"),
			"of another attempt":   s.post(ann, effect, "state", "applied", "note", "n", "attempt", "2"),
			"without a token":      s.post("", approve, "digest", digest, "verb", "approve"),
			"with a reading token": s.post(bob, approve, "digest", digest, "verb", "approve"),
			"of another tenant":    s.post(eve, approve, "digest", digest, "verb", "approve"),
			"with another verb":    s.post(ann, approve, "digest", digest, "verb", "burn"),
			"denied in silence":    s.post(ann, approve, "digest", digest, "verb", "deny"),
			"settled in silence":   s.post(ann, effect, "attempt", "1", "state", "applied"),
			"settled as nothing":   s.post(ann, effect, "attempt", "1", "note", "n"),
			"settled by a reader":  s.post(bob, effect, "attempt", "1", "state", "applied", "note", "n"),
			"cancelled by another": s.post(eve, "/runs/"+story.Queued.String()+"/cancel", "reason", "n"),
		} {
			if r.StatusCode < 400 {
				t.Errorf("%s: %d", name, r.StatusCode)
			}
		}
		a, err := h.Store.Approval(t.Context(), story.Approval)
		if err != nil || a.State != ledger.ApprovalRequested {
			t.Fatalf("after refusals: %+v, %v", a, err)
		}

		if r := s.post(ann, approve, "digest", digest, "verb", "approve", "reason", "I know them"); r.StatusCode != http.StatusSeeOther {
			t.Fatalf("approve: %d %s", r.StatusCode, body(t, r))
		}
		if a, err = h.Store.Approval(t.Context(), story.Approval); err != nil || a.State != ledger.ApprovalApproved || !strings.HasPrefix(a.By, "ann (token ") || a.Reason != "I know them" {
			t.Errorf("approved: %+v, %v", a, err)
		}
		if r := s.post(ann, approve, "digest", digest, "verb", "approve"); r.StatusCode != http.StatusConflict || !strings.Contains(body(t, r), "decided already") {
			t.Errorf("approved again: %d", r.StatusCode)
		}
		if r := s.post(ann, effect, "attempt", "1", "state", "applied", "note", "it is in the list", "told", "refund re_8 made"); r.StatusCode != http.StatusSeeOther {
			t.Fatalf("resolve: %d %s", r.StatusCode, body(t, r))
		}
		es, err := h.Store.Effects(t.Context(), ledger.EffectFilter{OpKey: story.Effect})
		if err != nil || len(es) != 1 || es[0].State != events.EffectApplied || !strings.HasPrefix(es[0].SettledBy, "ann (token ") {
			t.Errorf("settled: %+v, %v", es, err)
		}
		if r := s.post(ann, "/runs/"+story.Queued.String()+"/cancel", "reason", "wrong customer"); r.StatusCode != http.StatusSeeOther {
			t.Fatalf("cancel: %d", r.StatusCode)
		}
		run, err := h.Store.Run(t.Context(), story.Queued)
		if err != nil || run.State != ledger.Cancelling || !strings.HasPrefix(run.CancelBy, "ann (token ") {
			t.Errorf("cancelled: %+v, %v", run, err)
		}
		_, page = s.see(ann, "/inbox?done=approve")
		says(t, page, "Approved.", "Nothing waits for a person")
	})
}

// TestOthersSeeNothing: a page shows to a tenant what is its own.
func TestOthersSeeNothing(t *testing.T) {
	h := openSQLite(t)
	story := ledgertest.Tell(t, h)
	s := open(t, h)
	s.who.Tenant = "other"
	for _, path := range paths(story) {
		r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		page := body(t, r)
		for _, secret := range []string{"u-17", "u-19", "order 7", "refund"} {
			if strings.Contains(page, secret) {
				t.Errorf("%s (%d) shows %q to another tenant", path, r.StatusCode, secret)
			}
		}
	}
	s.who = access.Principal{}
	if r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs", nil)); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody: %d", r.StatusCode)
	}
}

func TestPagesOfARun(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		story := ledgertest.Tell(t, h)
		s := open(t, h)
		done := "/runs/" + story.Done.String()
		says(t, s.get(done+"/artifacts"), "letter", "revision 1", "accepted", "d-del", "-we paid.", "d-add", "+we paid back 50.00 EUR.", "revision 0", "refused by amount", "the amount is missing")
		says(t, s.get(done+"/transcript"), "Turn 1", "1\u202f200 + 80 tokens", "$0.0123", "I refund it.", "t1.c0 search", "order 7", "order 7, paid", "Turn 2")
		says(t, s.get(done+"/cost"), "$0.036", "Models", "Not in these sums: 2 unmeasured", "Cost of each turn", ">1</a>", "$0.0123")
		says(t, s.get(done+"/events"), "run_queued", "model_call_started", "artifact_finished")
		says(t, s.get(done+"/events?from=4"), "model_call_started", "Earlier")
		says(t, s.get(done+"/events/1"), "run_queued", "the hash is that of the bytes", "Data", "as they are stored and hashed", "&#34;prev&#34;")
		says(t, s.get(done+"/record"), "Whole: nothing is missing", "event")
		says(t, s.get(done+"/calls/t1.c1"), "refund", "destructive", "Arguments", "amount", "order", "Result", "done by", "Attempts of the effect", "took effect", "Transitions")
		says(t, s.get("/runs/"+story.Parent.String()+"/tree"), "clerk", "child", tail(story.Child), "queued")
		says(t, s.get("/runs/"+story.Child.String()+"/tree"), "works for", tail(story.Parent))
		says(t, s.get("/runs/"+story.Doubt.String()+"/calls/t1.c0"), "refund", "in doubt", "Why nobody can know", "ledgerctl resolve")
		says(t, s.get("/costs"), "In all", "Models", "Not in these sums", "Cost of each day", "clerk", "Each day in numbers")
		says(t, s.get("/costs?by=tool"), "refund", "unmeasured")
		says(t, s.get("/queues"), "In doubt", "Queues", "effects-", "Workers that hold runs")
		says(t, s.get("/record"), "Prove the newest", "Quarantined")
		says(t, s.get("/record?check=newest"), "Whole: nothing is missing", "of 8 runs")
		for _, path := range []string{done + "/calls/t9.c9", done + "/events/999", "/runs/" + strings.Repeat("0", 26)} {
			r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if b := body(t, r); r.StatusCode != http.StatusNotFound || !strings.Contains(b, "Nothing has this name") {
				t.Errorf("%s: %d", path, r.StatusCode)
			}
		}
	})
}
