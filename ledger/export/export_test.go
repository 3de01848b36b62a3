package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

var moment = time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)

// shelf is a ledger of histories that are made here.
type shelf struct {
	runs   []ledger.ExportRun
	events map[events.RunID][]events.Sealed
	calls  map[events.RunID][]ledger.CallRecord
	asked  int
	since  time.Time // of the last question for runs
	// dies is the question at which the process dies; 0 = never.
	dies int
}

var errDied = errors.New("the process died")

func (s *shelf) ask() error {
	if s.asked++; s.asked == s.dies {
		return errDied
	}
	return nil
}

func (s *shelf) ExportSize(context.Context, ledger.ExportFilter) (z ledger.ExportSize, err error) {
	for _, r := range s.runs {
		z.Runs, z.Last = z.Runs+1, r.ID
	}
	return z, s.ask()
}

func (s *shelf) ExportRuns(_ context.Context, f ledger.ExportFilter, after events.RunID, limit int) (page []ledger.ExportRun, err error) {
	s.since = f.Since
	for _, r := range s.runs {
		if bytes.Compare(r.ID[:], after[:]) > 0 && len(page) < limit && (f.Run.IsZero() || f.Run == r.ID) && bytes.Compare(r.ID[:], f.Upto[:]) <= 0 {
			page = append(page, r)
		}
	}
	return page, s.ask()
}

func (s *shelf) ExportEvents(_ context.Context, run events.RunID, after uint64, limit int) (page []events.Sealed, err error) {
	for _, e := range s.events[run] {
		if e.Envelope().Seq > after && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, s.ask()
}

func (s *shelf) ExportCalls(_ context.Context, run events.RunID, _ string, after, through uint64, limit int) (page []ledger.CallRecord, err error) {
	for _, c := range s.calls[run] {
		if c.Seq > after && c.Seq <= through && len(page) < limit {
			page = append(page, c)
		}
	}
	return page, s.ask()
}

// stock makes a ledger of runs with so many calls each.
func stock(t *testing.T, calls ...int) *shelf {
	t.Helper()
	s := &shelf{events: map[events.RunID][]events.Sealed{}, calls: map[events.RunID][]ledger.CallRecord{}}
	now := moment
	ids := events.NewIDs(func() time.Time { return now }, rand.NewChaCha8([32]byte{1}))
	r := redact.New(redact.Config{})
	for n, calls := range calls {
		now = now.Add(time.Second)
		run := ids.Run()
		prev, fold := events.Genesis(run), ledger.NewFold(run)
		note := func(p events.Payload) {
			j, err := r.JSON(p)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Millisecond)
			e, err := events.Seal(events.Envelope{
				ID: ids.Event(), RunID: run, Seq: uint64(len(s.events[run]) + 1), Epoch: 1, Type: events.TypeOf(p), Version: 1, Time: now, Tenant: "acme", Prev: prev,
			}, j)
			if err != nil {
				t.Fatal(err)
			}
			prev = e.Hash()
			s.events[run] = append(s.events[run], e)
			d, err := e.Decode()
			var out ledger.Rows
			if err = errors.Join(err, fold.Apply(d, &out)); err != nil {
				t.Fatal(err)
			}
			s.calls[run] = append(s.calls[run], out.Calls...)
		}
		if calls >= 0 { // else it was queued alone
			note(events.RunQueued{Agent: "refunds", Owner: "=u", Input: json.RawMessage(`{"a":"<b>"}`), Root: run})
		}
		for i := range calls {
			c := events.CallID{Turn: 1, Index: i}
			note(events.ToolExecutionStarted{Call: c, Attempt: 1, Tool: "look", Effect: "readonly", Arguments: json.RawMessage(fmt.Sprintf(`{"order":"<%d>"}`, i)), At: now})
			note(events.ToolExecutionFinished{Call: c, Attempt: 1, Tool: "look", Result: events.ToolResult{Status: "completed", Output: "=1+1"}, At: now})
		}
		s.runs = append(s.runs, ledger.ExportRun{Summary: ledger.Summary{Run: ledger.Run{ID: run, Root: run, Tenant: "acme", Agent: "refunds", ClientKey: fmt.Sprint(n), CreatedAt: now}}, Folded: uint64(len(s.events[run]))})
	}
	return s
}

func now() time.Time { return moment }

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// An export that dies at any question to the ledger, with anything half written behind
// what it had made durable, goes on to what it would have been.
func TestBrokenOffAnywhere(t *testing.T) {
	for _, format := range Formats {
		t.Run(string(format), func(t *testing.T) {
			s := stock(t, 3, 0, -1, 2*rowsPage+7, 1)
			o := Options{Format: format}
			whole := filepath.Join(t.TempDir(), "out")
			if _, err := To(t.Context(), s, o, whole, now); err != nil {
				t.Fatal(err)
			}
			want := contents(t, whole)
			questions := s.asked
			if questions < 10 {
				t.Fatalf("void: %d questions", questions)
			}
			for dies := 1; dies <= questions; dies++ {
				dir := filepath.Join(t.TempDir(), "out")
				s.asked, s.dies = 0, dies
				_, err := To(t.Context(), s, o, dir, now)
				if !errors.Is(err, errDied) {
					t.Fatalf("question %d: %v", dies, err)
				}
				if _, _, err := Read(dir); err == nil {
					t.Fatalf("question %d: it looks whole", dies)
				}
				// What the kernel had written of what was not made durable.
				for name := range contents(t, dir) {
					if strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".csv") {
						f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
						if err != nil {
							t.Fatal(err)
						}
						_, err = f.WriteString(`{"hash":"half of a li`)
						if err = errors.Join(err, f.Close()); err != nil {
							t.Fatal(err)
						}
					}
				}
				s.dies = 0
				r, err := To(t.Context(), s, o, dir, now)
				if err != nil {
					t.Fatalf("question %d, again: %v", dies, err)
				}
				if dies > 1 && !r.Resumed {
					t.Errorf("question %d: it began anew", dies)
				}
				got := contents(t, dir)
				for name, b := range want {
					if got[name] != b {
						t.Errorf("question %d: %s has %d bytes and differs from %d", dies, name, len(got[name]), len(b))
					}
				}
				if len(got) != len(want) {
					t.Errorf("question %d: %d files, want %d", dies, len(got), len(want))
				}
			}
		})
	}
}

// What is checked is found, whatever was done to which line.
func TestCheckFindsEachChange(t *testing.T) {
	s := stock(t, 2, 1)
	for _, format := range Formats {
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := To(t.Context(), s, Options{Format: format}, dir, now); err != nil {
			t.Fatal(err)
		}
		for name, b := range contents(t, dir) {
			if name == "manifest.json" {
				continue
			}
			lines := strings.SplitAfter(strings.TrimSuffix(b, "\n"), "\n")
			for i := range lines {
				for what, changed := range map[string][]string{
					"removed": append(append([]string{}, lines[:i]...), lines[i+1:]...),
					"twice":   append(append([]string{}, lines[:i+1]...), lines[i:]...),
					"changed": append(append(append([]string{}, lines[:i]...), strings.Replace(lines[i], "1", "2", 1)), lines[i+1:]...),
				} {
					if strings.Join(changed, "") == strings.TrimSuffix(b, "\n") {
						continue
					}
					if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(changed, "")), 0o600); err != nil {
						t.Fatal(err)
					}
					found := map[string]bool{}
					c, err := Check(t.Context(), dir, func(int64) {}, func(f Fault) error {
						found[string(f.Kind)] = true
						return nil
					})
					if err != nil || c.Tampered == 0 {
						t.Errorf("%s line %d %s: %v, %+v", name, i+1, what, err, c)
					}
				}
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Check(t.Context(), dir, func(int64) {}, func(f Fault) error {
			t.Errorf("%s: %+v", format, f)
			return nil
		})
		if err != nil || c.Runs != 2 || c.Events != 8 || format == JSONL && c.Calls != 6 {
			t.Errorf("%s: %v, %+v", format, err, c)
		}
	}
}

// Lines that were changed are named even if whoever did it made the manifest fit.
func TestTheChainIsChecked(t *testing.T) {
	s := stock(t, 2, 1)
	for _, tt := range []struct {
		name, file string
		change     func([]string) []string
		want       string
	}{
		{"an event is missing", "events.jsonl", func(l []string) []string { return append(l[:2:2], l[3:]...) }, "want seq 3"},
		{"the end of a run is missing", "events.jsonl", func(l []string) []string { return append(l[:4:4], l[5:]...) }, "events 5 to 5 are missing at the end of the run"},
		{"an event stands elsewhere", "events.jsonl", func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, "want seq 2"},
		{"a run is missing", "events.jsonl", func(l []string) []string { return l[:5] }, "events 1 to 3 are missing"},
		{"a head is missing", "heads.jsonl", func(l []string) []string { return l[:1] }, "not among the heads"},
		{"a call is missing", "calls.jsonl", func(l []string) []string { return l[1:] }, "as the events give it"},
		{"the last call is missing", "calls.jsonl", func(l []string) []string { return l[:len(l)-1] }, "as the events give it"},
		{"a call too many", "calls.jsonl", func(l []string) []string { return append(l, l[0]) }, "a call that no event gives"},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := To(t.Context(), s, Options{Format: JSONL}, dir, now); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, tt.file)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(tt.change(strings.SplitAfter(strings.TrimSpace(string(b))+"\n", "\n")[:strings.Count(string(b), "\n")]), "")), 0o600); err != nil {
			t.Fatal(err)
		}
		var texts []string
		if _, err := Check(t.Context(), dir, func(int64) {}, func(f Fault) error {
			if f.Line > 0 || !f.Run.IsZero() {
				texts = append(texts, f.Text)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(texts, "\n"), tt.want) {
			t.Errorf("%s: found %q, want %q", tt.name, texts, tt.want)
		}
	}
}

// A run that goes on is written as far as it was, and so are its calls; runs that come
// are not written.
func TestWorkersGoOn(t *testing.T) {
	s := stock(t, 3, 3)
	grown := *s
	first := s.runs[0].ID
	s.runs[0].Folded = 4
	s.events[first] = s.events[first][:6:6]
	dir := filepath.Join(t.TempDir(), "out")
	r, err := To(t.Context(), s, Options{Format: JSONL}, dir, now)
	if err != nil || r.Manifest.Counts[Events] != 6+7 || r.Manifest.Counts[Calls] != 3+6 {
		t.Fatalf("%v, %+v", err, r.Manifest.Counts)
	}
	if c, err := Check(t.Context(), dir, func(int64) {}, func(f Fault) error { return errors.New(f.Text) }); err != nil {
		t.Errorf("%v, %+v", err, c)
	}
	if n, err := Compare(t.Context(), dir, &grown, func(f Fault) error { return errors.New(f.Text) }); err != nil || n != 2 {
		t.Errorf("compared %d: %v", n, err)
	}
	delete(s.events, first)
	var found []Fault
	if _, err := Compare(t.Context(), dir, s, func(f Fault) error { found = append(found, f); return nil }); err != nil || len(found) != 1 || found[0].Kind != ledger.Incomplete {
		t.Errorf("%v, %+v", err, found)
	}
}

// Files that are not an export's own stay as they are.
func TestNothingIsOverwritten(t *testing.T) {
	s := stock(t, 1)
	dir := t.TempDir()
	mine := filepath.Join(dir, "events.jsonl")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := To(t.Context(), s, Options{Format: JSONL}, dir, now); err == nil || !strings.Contains(err.Error(), "events.jsonl is there already") {
		t.Errorf("%v", err)
	}
	if _, err := To(t.Context(), s, Options{Format: JSONL, Kinds: []Kind{Events}}, mine, now); err == nil {
		t.Error("a file was taken")
	}
	if b, _ := os.ReadFile(mine); string(b) != "mine" {
		t.Errorf("%q", b)
	}
}

// A time ago is one of the beginning, whenever the export goes on.
func TestBrokenOffATimeAgo(t *testing.T) {
	s := stock(t, 3, 1)
	dir := filepath.Join(t.TempDir(), "out")
	ago := func(d time.Duration, asked string) Options {
		return Options{Format: JSONL, Asked: asked, Filter: ledger.ExportFilter{Since: moment.Add(d), Until: moment.Add(d + time.Hour)}}
	}
	s.dies = 3
	if _, err := To(t.Context(), s, ago(0, "24h"), dir, now); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	s.dies = 0
	for _, o := range []Options{ago(time.Second, "23h"), ago(time.Second, ""), {Format: JSONL, Asked: "24h", Filter: ledger.ExportFilter{Owner: "u"}}} {
		if _, err := To(t.Context(), s, o, dir, now); err == nil || !strings.Contains(err.Error(), "another export") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	r, err := To(t.Context(), s, ago(time.Second, "24h"), dir, now)
	if err != nil || !r.Resumed || !r.Manifest.Filter.Since.Equal(moment) || !s.since.Equal(moment) {
		t.Errorf("%v: %+v, asked for runs since %s", err, r, s.since)
	}
}

// Pages of a stream put together are the stream, and a hole is told on its page.
func TestPages(t *testing.T) {
	s := stock(t, 2, 1, 3)
	holed := s.runs[1].ID
	s.events[holed] = append(s.events[holed][:1:1], s.events[holed][2:]...)
	for _, format := range []Format{CSV, JSONL} {
		var whole, pages bytes.Buffer
		o := Options{Format: format, Kinds: []Kind{Events}}
		if _, _, err := Stream(t.Context(), s, o, Place{}, 0, &whole); !errors.Is(err, ErrIncomplete) {
			t.Fatal(err)
		}
		told := 0
		for at, more := (Place{}), true; more; {
			var err error
			if at, more, err = Stream(t.Context(), s, o, at, 2, &pages); errors.Is(err, ErrIncomplete) {
				told++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if pages.String() != whole.String() || told == 0 { // a page that goes on in its run tells it again
			t.Errorf("%s: a hole was told on %d pages; pages:\n%s\nwant\n%s", format, told, &pages, &whole)
		}
	}
}
