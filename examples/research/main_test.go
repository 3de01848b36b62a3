package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/examples/research/standin"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime/system"
)

// TestMain makes the test's own binary the worker, and what that starts.
func TestMain(m *testing.M) {
	if code, ok := role(context.Background(), os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// whole runs the example for each supervisor, all at once, and returns what they
// print.
func whole(t *testing.T, ss ...*supervisor) []string {
	t.Helper()
	outs, errs := make([]bytes.Buffer, len(ss)), make([]error, len(ss))
	ledgerctl := []string{testenv.Build(t, "cmd/ledgerctl")}
	var all sync.WaitGroup
	for i, s := range ss {
		s.dir, s.out, s.ledgerctl = t.TempDir(), &outs[i], ledgerctl
		all.Go(func() { errs[i] = s.run(t.Context()) })
	}
	all.Wait()
	texts := make([]string, len(ss))
	for i, s := range ss {
		if texts[i] = outs[i].String(); errs[i] != nil {
			log, _ := os.ReadFile(s.path("worker.log"))
			t.Fatalf("%v\n%s\n%s", errs[i], texts[i], log)
		}
	}
	return texts
}

// ran is what the ledger has of one run.
type ran struct {
	ledger.Summary
	models []ledger.ModelCallRow
	calls  []ledger.CallRecord // every transition, oldest first
}

func read(t *testing.T, st ledger.Store, name string) ran {
	t.Helper()
	id, err := events.ParseRunID(name)
	if err != nil {
		t.Fatal(err)
	}
	var r ran
	if r.models, err = st.ModelCalls(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if r.calls, err = st.Calls(t.Context(), ledger.CallFilter{Run: id, All: true, Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r.calls, func(a, b ledger.CallRecord) int { return int(a.Seq) - int(b.Seq) })
	all, err := st.Summaries(t.Context(), ledger.RunFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.ID == id {
			r.Summary = s
		}
	}
	return r
}

// outcome returns the terminal row of the only call of a tool.
func (r ran) outcome(t *testing.T, tool string) ledger.CallRecord {
	t.Helper()
	var found []ledger.CallRecord
	for _, c := range r.calls {
		if c.Tool == tool && c.Terminal {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("run %s has %d outcomes of %s, want 1", r.ID, len(found), tool)
	}
	return found[0]
}

func result(t *testing.T, c ledger.CallRecord) (r events.ToolResult) {
	t.Helper()
	if err := json.Unmarshal(c.Result, &r); err != nil {
		t.Fatalf("result of %s: %v", c.Tool, err)
	}
	return r
}

var linkRule = regexp.MustCompile(`https://[^\s)"]+`)

// The answers of a script that never dies, and of one that does.
func TestAnswers(t *testing.T) {
	// The key is one that no rule would take for a secret if it were not registered.
	killed, spared := &supervisor{leak: true, key: "kelp-and-tea-by-the-pier"}, &supervisor{spare: true}
	out := whole(t, killed, spared)[0]
	const first = `The storm waves of 1.9 m [2] would be 1.37 m behind the 40 m that are planned [3]: 28 % lower, since height falls off as exp(-k w) with k = 0.0082 per metre [1].

Sources
[1] https://journal.tidemark.example/2021/kelp-belt.pdf
[2] https://harbour.portmerrow.example/waves.html
[3] https://council.portmerrow.example/minutes/2026-03.docx

The notice: https://board.portmerrow.example/1/kelp-belt.md`
	const second = `A belt of 84.5 m halves the waves: their height falls off as exp(-k w) with k = 0.0082 per metre [1], as found earlier.

Sources
[1] https://journal.tidemark.example/2021/kelp-belt.pdf`
	for _, s := range []*supervisor{killed, spared} {
		if d := cmp.Diff([]string{first, second}, []string{s.runs[0].Answer, s.runs[1].Answer}); d != "" {
			t.Errorf("answers (-want +got):\n%s", d)
		}
	}
	st, _, err := system.OpenLedger(t.Context(), system.Options{Dir: killed.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	runs := []ran{read(t, st, killed.runs[0].Run), read(t, st, killed.runs[1].Run)}
	t.Run("what is cited was found", func(t *testing.T) { cited(t, runs) })
	t.Run("what is said was read", func(t *testing.T) { figures(t, runs) })
	t.Run("the cost is the sum of what was priced", func(t *testing.T) { paid(t, st, runs) })
	t.Run("nothing is done twice", func(t *testing.T) { once(t, killed, spared, runs) })
	t.Run("the key is nowhere", func(t *testing.T) { nowhere(t, killed, runs[0], out) })
	for _, want := range []string{"worker.* killed", "✗", "whole: 2 runs", `(?m)^\$ .*ledgerctl --dir \S+ calls sources`, "waves.html +Waves at the pier"} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("what the example prints does not match %q:\n%s", want, out)
		}
	}
}

// TestOnAModelOverTheWire: the same answers, from a model provider.
func TestOnAModelOverTheWire(t *testing.T) {
	policy, err := files.ReadFile("agent/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := scripted.Parse("policy.yaml", policy)
	if err != nil {
		t.Fatal(err)
	}
	srv := modelserver.Start(t, script)
	file, secret := srv.Config(t, modelserver.Chat)
	s := &supervisor{model: modelflag.Flags{Model: modelserver.Name, Config: file, Secrets: []string{secret}}}
	whole(t, s)
	if len(s.runs) != 2 || !strings.HasPrefix(s.runs[0].Answer, "The storm waves of 1.9 m [2] would be 1.37 m") || !strings.HasPrefix(s.runs[1].Answer, "A belt of 84.5 m halves the waves") {
		t.Errorf("answers: %+v", s.runs)
	}
	if srv.Answers() != 9 { // six turns and three: none is paid twice
		t.Errorf("%d answers, want 9", srv.Answers())
	}
}

// cited: each link of an answer is a source of a row of its run. The second run
// has it from its memory, and the memory from the first.
func cited(t *testing.T, runs []ran) {
	sources := map[string]bool{}
	for _, c := range runs[0].calls {
		if !c.Terminal {
			continue
		}
		r := result(t, c)
		for _, s := range r.Sources {
			sources[s.URL] = true
		}
		if c.Tool == "publish" { // what it made is no source
			for _, u := range linkRule.FindAllString(r.Output, -1) {
				sources[u] = true
			}
		}
	}
	for _, r := range runs {
		links := linkRule.FindAllString(result(t, r.outcome(t, "finish")).Output, -1)
		if len(links) == 0 {
			t.Errorf("run %s cites nothing", r.ID)
		}
		for _, u := range links {
			if !sources[u] {
				t.Errorf("run %s cites %s, which is a source of no call: %v", r.ID, u, sources)
			}
		}
	}
	if remembered := result(t, runs[1].outcome(t, "recall")).Output; !strings.Contains(remembered, "kelp-belt.pdf") {
		t.Errorf("the second run remembers %q", remembered)
	}
}

// figures: each figure of an answer stands in what a tool returned before it.
func figures(t *testing.T, runs []ran) {
	figure := regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	for _, r := range runs {
		var before strings.Builder
		for _, c := range r.calls {
			if c.Terminal && c.Tool != "finish" {
				before.WriteString(result(t, c).Output + "\n")
			}
		}
		answer, _, _ := strings.Cut(result(t, r.outcome(t, "finish")).Output, "Sources")
		answer = regexp.MustCompile(`\[[0-9]\]`).ReplaceAllString(answer, "")
		all := figure.FindAllString(answer, -1)
		if len(all) < 2 {
			t.Errorf("run %s says %q: there are no figures in it", r.ID, answer)
		}
		for _, f := range all {
			if !regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(f) + `([^0-9]|$)`).MatchString(before.String()) {
				t.Errorf("run %s says %s, which no tool has returned", r.ID, f)
			}
		}
	}
}

func paid(t *testing.T, st ledger.Store, runs []ran) {
	all := new(big.Int)
	for _, r := range runs {
		sum := new(big.Int)
		for _, m := range r.models {
			if m.Cost == nil || *m.Cost <= 0 {
				t.Errorf("run %s turn %d: a model call without a price", r.ID, m.Turn)
				continue
			}
			sum.Add(sum, big.NewInt(int64(*m.Cost)))
		}
		for _, c := range r.calls {
			if c.Terminal && c.Cost != nil {
				sum.Add(sum, big.NewInt(int64(*c.Cost)))
			}
		}
		if sum.Cmp(r.Cost) != 0 {
			t.Errorf("run %s cost %s, its rows %s", r.ID, events.FormatPico(r.Cost), events.FormatPico(sum))
		}
		all.Add(all, sum)
	}
	// 0.001 USD is what the stand-in of OpenAlex says that a search costs.
	if c := runs[0].outcome(t, "paper_search").Cost; c == nil || c.String() != "0.001" {
		t.Errorf("the search for papers cost %v", c)
	}
	rows, err := st.Costs(t.Context(), ledger.CostFilter{})
	if err != nil || len(rows) != 1 {
		t.Fatalf("costs: %+v, %v", rows, err)
	}
	if total := new(big.Int).Add(rows[0].ModelCost, rows[0].ToolCost); total.Cmp(all) != 0 {
		t.Errorf("all runs cost %s, their rows %s", events.FormatPico(total), events.FormatPico(all))
	}
}

// once: the worker died while it published; what was done before is not done
// again, and what it was doing is done once.
func once(t *testing.T, killed, spared *supervisor, runs []ran) {
	r := runs[0]
	if r.Resumes != 1 || len(r.models) != int(r.Turns) {
		t.Errorf("run %s was resumed %d times, %d model calls in %d turns", r.ID, r.Resumes, len(r.models), r.Turns)
	}
	var started []ledger.CallRecord
	for _, c := range r.calls {
		if c.Status == "started" && c.Tool == "publish" {
			started = append(started, c)
		} else if c.Status == "started" && c.Attempt != 1 {
			t.Errorf("%s was done again", c.Tool)
		}
	}
	if len(started) != 2 || started[0].OpKey.IsZero() || started[0].OpKey != started[1].OpKey {
		t.Errorf("publish was started %d times, want 2 under one key: %+v", len(started), started)
	}
	asked, want := killed.world.Asked(), spared.world.Asked()
	want["board"]++ // the one that nobody was told about
	if d := cmp.Diff(want, asked); d != "" {
		t.Errorf("requests without a kill, and with one (-want +got):\n%s", d)
	}
	var wrote struct{ Path, Content string }
	written, err := os.ReadFile(killed.path("files/kelp-belt.md"))
	if err != nil || json.Unmarshal(r.outcome(t, "files__write_file").Arguments, &wrote) != nil || wrote.Content != string(written) {
		t.Errorf("the report is %q, %v; the ledger says %q", written, err, wrote.Content)
	}
	notices, err := standin.ReadBoard(killed.path("board.jsonl"))
	if err != nil || len(notices) != 1 || notices[0].Key != started[0].OpKey.String() {
		t.Errorf("on the board: %+v, %v", notices, err)
	}
}

// nowhere looks for the key in every file there is. The stand-ins have put it
// into what they say of papers.
func nowhere(t *testing.T, s *supervisor, r ran, out string) {
	text := result(t, r.outcome(t, "paper_search")).Output
	for _, marked := range []string{"a review for [", "We counted ["} { // at the door of the service that it is for; wherever it is from
		if !strings.Contains(text, marked) {
			t.Errorf("the services did not leak the key, or no marker stands for it: %s", text)
		}
	}
	keys := [][]byte{[]byte(s.key), []byte(base64.StdEncoding.EncodeToString([]byte(s.key)))}
	control := map[string]bool{} // files that hold a text which is no secret
	err := fs.WalkDir(os.DirFS(s.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		for _, k := range keys {
			if bytes.Contains(b, k) {
				t.Errorf("the key stands in %s", name)
			}
		}
		if bytes.Contains(b, []byte("kelp belt wave attenuation")) {
			control[filepath.Ext(name)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !control[".db"] || !control[".blk"] {
		t.Errorf("what was searched for is found in %v: want the database and the journal, or nothing is proven of them", control)
	}
	if strings.Contains(out, s.key) {
		t.Error("the key was printed")
	}
}

// The script has no answer of its own: where the sources say nothing, it says so.
func TestNothingFound(t *testing.T) {
	policy, err := files.ReadFile("agent/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := scripted.Parse("policy.yaml", policy)
	if err != nil {
		t.Fatal(err)
	}
	r := model.Request{Messages: []model.Message{{Role: model.User, Text: `{"question":"How wide must it be?"}`}}}
	for _, want := range []string{"recall files__read_text_file", "web_search paper_search wikidata", "decline"} {
		answer, err := script.Call(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ask, told := model.Message{Role: model.Assistant}, model.Message{Role: model.Tool}
		var names []string
		for _, c := range answer.Calls {
			names = append(names, c.Name)
			ask.Calls = append(ask.Calls, model.Call{Name: c.Name, Arguments: c.Arguments})
			told.Results = append(told.Results, model.Result{Name: c.Name, Text: "nothing found"})
		}
		if got := strings.Join(names, " "); got != want {
			t.Fatalf("turn %d calls %q, want %q", len(r.Messages)/2+1, got, want)
		}
		r.Messages = append(r.Messages, ask, told)
	}
}
