package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/browser"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/policy"
)

// evening is a system at work, and runs of it: one that has ended and says what could
// act in a page, two that wait for an approval, one whose effect is in doubt.
type evening struct {
	sys                         *system.Started
	done, asks, unwanted, doubt ledger.Run
}

// hostile is what a model says.
const hostile = `<script>document.title="pwned"</script> gnp` + "\u202e"

func startEvening(t *testing.T, where system.Options) *evening {
	t.Helper()
	taxi := *bogus.BookTaxi().Definition()
	schema := taxi.Schema
	taxi.Schema = nil
	lost := tools.Must(tools.Raw(taxi, schema, func(context.Context, *tools.Invocation) (any, error) {
		return nil, errors.New("the line went dead")
	}))
	reg := tools.Must(tools.NewRegistry(bogus.MyNotes(), bogus.OrderPizza(), lost))
	call := func(name, args string) scripted.Answer {
		return scripted.Answer{Calls: []scripted.Call{{Name: name, Arguments: args}}}
	}
	pizza := call("order_pizza", `{"pizza":"quattro","size":"large"}`)
	agent := func(name, tool string) *agents.Agent {
		return &agents.Agent{Name: name, Model: "scripted/" + name, Loop: "singleshot", Prompt: "Do it.", Tools: []string{tool}}
	}
	cfg := runtime.Config{
		Agents: []*agents.Agent{agent("clerk", "my_notes"), agent("host", "order_pizza"), agent("porter", "book_taxi")}, Tools: reg,
		Models: map[string]model.Model{
			"scripted/clerk":  scripted.Script(call("my_notes", `{"topic":"wifi"}`), scripted.Answer{Text: hostile}),
			"scripted/host":   scripted.Script(pizza, pizza, scripted.Answer{Text: "It is on its way."}),
			"scripted/porter": scripted.Script(call("book_taxi", `{"from":"here","to":"there"}`), scripted.Answer{Text: "It comes."}),
		},
		Policy: policy.Must("the house's policy", policy.Rule{When: `tool.name == "order_pizza"`, Then: policy.Ask, Because: "dinner is looked at"}),
	}
	sys, err := system.Start(t.Context(), where, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Stop(); err != nil {
			t.Error(err)
		}
	})
	run := func(agent, key string, want ledger.State) ledger.Run {
		r, err := sys.Do(t.Context(), runtime.Submit{Agent: agent, Owner: "u-1", Input: "go", ClientKey: key})
		if err != nil || r.State != want {
			t.Fatalf("%s: %s %s, %v", agent, r.State, r.Error, err)
		}
		return r
	}
	return &evening{
		sys, run("clerk", "1", ledger.Finished), run("host", "2", ledger.Parked), run("host", "3", ledger.Parked), run("porter", "4", ledger.Parked),
	}
}

// ended waits for a run's end.
func (e *evening) ended(t *testing.T, r ledger.Run) ledger.Run {
	t.Helper()
	r, err := e.sys.Client().Wait(t.Context(), r.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// servePage is ledgerctl ui with a token that may do everything.
func servePage(t *testing.T, where ...string) (url, token string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	var made strings.Builder
	if code := newApp(strings.NewReader(""), &made, io.Discard, time.Now).run(t.Context(), []string{"tokens", "new", "ann", "--file", file, "--scopes", "read,resolve,approve"}); code != 0 {
		t.Fatalf("tokens new: %d", code)
	}
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int)
	go func() {
		done <- newApp(strings.NewReader(""), in, io.Discard, time.Now).run(ctx, append([]string{"ui", "--listen", "127.0.0.1:0", "--tokens", file}, where...))
		_ = in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-done; code != 0 {
			t.Errorf("ui ended with %d", code)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url), strings.TrimSpace(made.String())
}

// TestPageInABrowser: what people do with the page, they do in a Chromium, over runs
// that the system has made: what they decide there is done, and the record says by whom.
func TestPageInABrowser(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		dir := t.TempDir()
		inABrowser(t, system.Options{Dir: dir}, "--dir", dir)
	})
	t.Run("postgres", func(t *testing.T) {
		o := system.Options{Postgres: testenv.Postgres(t), NATS: testenv.NATS(t).URL(), Sync: "always"}
		if _, err := system.Migrate(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		inABrowser(t, o, "--postgres", o.Postgres)
	})
}

const rows = `n => document.querySelectorAll("#list tbody tr").length === n`

func inABrowser(t *testing.T, where system.Options, flags ...string) {
	chromium := browser.Open(t)
	e := startEvening(t, where)
	url, token := servePage(t, flags...)
	p := chromium.Page()
	p.Look(browser.Look{})
	says := func(wants ...string) {
		t.Helper()
		text := p.Text()
		for _, w := range wants {
			if !strings.Contains(text, w) {
				t.Fatalf("the page does not say %q:\n%s", w, text)
			}
		}
	}
	page := func(r ledger.Run) string { return url + "/runs/" + r.ID.String() }

	// Nobody in particular is asked who they are, and gets where they wanted to go.
	p.Go(url + "/runs")
	p.Said() // the answer was 401
	says("Sign in")
	p.Type("input[name=token]", token)
	p.Press("button", "Sign in")
	says("ann", "Sign out", "clerk", "host", "porter", "finished", "parked")

	// The list is narrowed while one looks.
	p.Until(rows, 4)
	p.Click(".chip", "^finished$")
	p.Until(rows, 1)
	p.Click(".chip", "^finished$")
	p.Click(".chip", "^parked$")
	p.Until(rows, 3)
	p.Go(url + "/runs?agent=porter")
	p.Until(rows, 1)
	p.Go(url + "/runs")

	// A run, as a waterfall; what it says is text.
	p.Press("#list tbody tr:last-child a", ".")
	says("clerk", "my_notes", "finished")
	if n := string(p.Do(`() => document.querySelectorAll(".fall .bar svg rect").length`)); len(n) == 1 && n < "4" {
		t.Errorf("the waterfall has %s bars", n)
	}
	p.Press("a", "Transcript")
	says(`<script>document.title="pwned"</script>`, "U+202E")
	if n := string(p.Do(`() => document.querySelectorAll("script").length + (document.title.includes("pwned") ? 100 : 0)`)); n != "1" {
		t.Errorf("scripts: %s", n)
	}

	// One dinner is approved; whoever looks at its run sees it end.
	watched := chromium.Page()
	watched.Go(url + "/login")
	watched.Type("input[name=token]", token)
	watched.Press("button", "Sign in")
	watched.Go(page(e.asks))
	p.Go(url + "/inbox")
	says("Wants an approval 2", "In doubt 1", "order_pizza", "quattro", "dinner is looked at", "book_taxi")
	for _, m := range []string{url + "/inbox", url + "/runs", page(e.doubt)} {
		p.Go(m)
		if missed, unseen := p.Tab(); len(missed)+len(unseen) > 0 {
			t.Errorf("%s: Tab does not get to %q, and does not show that it is on %q", m, missed, unseen)
		}
	}
	p.Go(url + "/inbox")
	card := `form[action$="` + approval(t, e, e.asks).ID.String() + `"] `
	p.Type(card+"input[name=reason]", "we are hungry")
	p.Press(card+"button", "Approve once")
	says("Approved.", "Wants an approval 1")
	if a := approval(t, e, e.asks); a.State != ledger.ApprovalApproved && a.State != ledger.ApprovalConsumed || !strings.HasPrefix(a.By, "ann (token ") || a.Reason != "we are hungry" {
		t.Errorf("approved: %+v", a)
	}
	if r := e.ended(t, e.asks); r.State != ledger.Finished {
		t.Errorf("the run is %s", r.State)
	}
	watched.Until(`() => document.querySelector(".head .state").textContent.includes("finished")`)
	recorded(t, e, e.asks, "we are hungry")

	// The taxi came.
	p.Press(".card a", "^"+e.doubt.ID.String()[18:]+"$")
	p.Go(url + "/inbox")
	form := `form[action*="/effects/"] `
	p.Click(form+".choice", "It took effect")
	p.Type(form+"input[name=note]", "I see it from here")
	p.Type(form+"input[name=told]", "plate QU 1177 LL")
	p.Press(form+"button", "Settle")
	if r := e.ended(t, e.doubt); r.State != ledger.Finished {
		t.Errorf("the run is %s", r.State)
	}
	es, err := e.sys.Store.Effects(t.Context(), ledger.EffectFilter{OpKey: e.doubt.ParkKey})
	if err != nil || len(es) != 1 || es[0].State != events.EffectApplied || !strings.HasPrefix(es[0].SettledBy, "ann (token ") {
		t.Errorf("settled: %+v, %v", es, err)
	}
	recorded(t, e, e.doubt, "I see it from here")

	// The other dinner is not wanted any more.
	p.Go(page(e.unwanted))
	p.Click("summary", "Cancel this run")
	p.Type("#cancel-reason", "one is enough")
	p.Press("button", "Cancel the run")
	if r := e.ended(t, e.unwanted); r.State != ledger.Cancelled || !strings.HasPrefix(r.CancelBy, "ann (token ") {
		t.Errorf("cancelled: %s by %q", r.State, r.CancelBy)
	}
	recorded(t, e, e.unwanted, "one is enough")
	p.Go(url + "/inbox")
	says("Nothing waits for a person")

	p.Go(url + "/costs")
	says("Cost of each day", "Models")
	if tall := string(p.Do(`() => Math.max(...[...document.querySelectorAll(".chart rect.k-model")].map(r => r.getBoundingClientRect().height)) > 50`)); tall != "true" {
		t.Error("the chart has no bar")
	}

	// On paper: no navigation, and nothing that would have to be scrolled.
	p.Look(browser.Look{Width: 794, Print: true})
	for _, m := range []string{page(e.doubt), page(e.doubt) + "/transcript", page(e.doubt) + "/events/3", url + "/costs", url + "/runs"} {
		p.Go(m)
		var cut []byte = p.Do(`() => [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.classList.contains("sr") && getComputedStyle(e).overflow !== "visible" && !e.closest("svg") &&
			(e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1)).map(e => e.outerHTML.slice(0, 160)).concat(document.documentElement.scrollWidth > 794 ? ["the page is wider than paper"] : [])`)
		if string(cut) != "[]" {
			t.Errorf("%s: cut on paper: %s", m, cut)
		}
		if shown := string(p.Do(`() => [...document.querySelectorAll("nav, form, .side")].filter(e => e.checkVisibility()).length`)); shown != "0" {
			t.Errorf("%s: %s parts of the navigation on paper", m, shown)
		}
	}
	for _, said := range append(p.Said(), watched.Said()...) {
		t.Errorf("the browser said: %s", said)
	}
}

// approval is the one that a run asked for.
func approval(t *testing.T, e *evening, r ledger.Run) ledger.Approval {
	t.Helper()
	as, err := e.sys.Store.Approvals(t.Context(), ledger.ApprovalFilter{Run: r.ID})
	if err != nil || len(as) != 1 {
		t.Fatalf("approvals of %s: %+v, %v", r.ID, as, err)
	}
	return as[0]
}

// recorded checks that one event of the run holds a reason, and who gave it.
func recorded(t *testing.T, e *evening, r ledger.Run, reason string) {
	t.Helper()
	found := false
	err := e.sys.Store.Events(t.Context(), r.ID, 1, func(s events.Sealed) error {
		text := string(s.Bytes())
		found = found || strings.Contains(text, reason) && strings.Contains(text, "ann (token ")
		return nil
	})
	if err != nil || !found {
		t.Errorf("no event of %s says %q and by whom: %v", r.ID, reason, err)
	}
}
