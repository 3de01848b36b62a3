package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/ledger/ledgertest"
)

func TestRuns(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		story := ledgertest.Tell(t, h)
		s := open(t, h)
		count := func(query string) int { return strings.Count(s.get("/runs?"+query), `<th scope="row">`) }
		for _, tt := range []struct {
			query string
			want  int
		}{
			{"", 8},
			{"state=queued&state=failed", 4}, // the child waits in its queue too
			{"state=parked", 3},
			{"owner=u-17", 2},
			{"session=s-2", 1},
			{"agent=nobody", 0},
			{"tenant=acme&queue=nowhere", 0},
			{"since=1h", 8},
			{"until=2020-01-01", 0},
		} {
			if n := count(tt.query); n != tt.want {
				t.Errorf("?%s: %d runs, want %d", tt.query, n, tt.want)
			}
		}
		page := s.get("/runs?state=parked")
		says(t, page, "Runs", story.Asks.String(), "for <bdi>u-19", "approval", story.Doubt.String(), "in doubt", "1 doubt")
		r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs?id="+strings.ToLower(tail(story.Doubt)), nil))
		if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/runs/"+story.Doubt.String() {
			t.Errorf("the end of an id: %d, %s", r.StatusCode, r.Header.Get("Location"))
		}
		for query, say := range map[string]string{
			"state=odd": "is nothing for state", "since=" + url.QueryEscape("<b>"): "&lt;b&gt;", "before=x": "Go back to the first page", "id=XX": "is nothing for a run",
		} {
			r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs?"+query, nil))
			if b := body(t, r); r.StatusCode != http.StatusBadRequest || !strings.Contains(b, say) {
				t.Errorf("?%s: %d without %q", query, r.StatusCode, say)
			}
		}
	})
}

func TestNoRuns(t *testing.T) {
	s := open(t, openSQLite(t))
	says(t, s.get("/runs"), "No runs yet", "runner submit")
	says(t, s.get("/runs?owner=x"), "No run is like that", "All runs")
}

func TestWaterfall(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		story := ledgertest.Tell(t, h)
		s := open(t, h)
		says(t, s.get("/runs/"+story.Doubt.String()), "worker lost", "refund", "destructive", "in doubt", "takeover", "waits: in doubt")
		says(t, s.get("/runs/"+story.Done.String()), "search", "refund", "destructive", "letter", "refused", "letter", "accepted")
		says(t, s.get("/runs/"+story.Done.String()), "search", "m", "$0.0123", "letter")
		says(t, s.get("/runs/"+story.Failed.String()), "shell", "blocked")
		says(t, s.get("/runs/"+story.Queued.String()), "Nothing has happened yet")
	})
}

func TestLongRunIsShownInPages(t *testing.T) {
	h := openSQLite(t)
	run := ledgertest.TellLong(t, h, 5000)
	s := open(t, h)
	first := s.get("/runs/" + run.String())
	if n := strings.Count(first, `<tr class="a-`); n != actsPerPage {
		t.Errorf("%d lines, want %d", n, actsPerPage)
	}
	if len(first) > 600_000 {
		t.Errorf("a page of %d bytes", len(first))
	}
	says(t, first, "1 of ", "acts in all", "Later")
	second := s.get("/runs/" + run.String() + "?page=2")
	says(t, second, "Earlier", "2 of ")
}
