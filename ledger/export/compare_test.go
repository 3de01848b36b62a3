package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// forged are the lines of an export by file name, with the manifest that is going to fit.
type forged struct {
	lines map[string][]string
	m     Manifest
}

// cut leaves only the lines of a file that keep says.
func (f *forged) cut(name string, keep func(string) bool) {
	var left []string
	for _, l := range f.lines[name] {
		if keep(l) {
			left = append(left, l)
		}
	}
	f.lines[name] = left
}

// swap changes the first occurrence in a line.
func (f *forged) swap(name string, line int, from, to string) {
	if !strings.Contains(f.lines[name][line], from) {
		panic(name + " has no " + from + ": " + f.lines[name][line])
	}
	f.lines[name][line] = strings.Replace(f.lines[name][line], from, to, 1)
}

// forge changes an export and makes its manifest fit.
func forge(t *testing.T, dir string, change func(*forged)) {
	t.Helper()
	f := &forged{lines: map[string][]string{}}
	for name, text := range contents(t, dir) {
		if name == "manifest.json" {
			if err := json.Unmarshal([]byte(text), &f.m); err != nil {
				t.Fatal(err)
			}
			continue
		}
		l := strings.SplitAfter(text, "\n")
		f.lines[name] = l[:len(l)-1]
	}
	change(f)
	for name, l := range f.lines {
		b := []byte(strings.Join(l, ""))
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range f.m.Files {
			if k := &f.m.Files[i]; k.Name == name {
				k.Lines, k.Bytes, k.SHA256 = int64(bytes.Count(b, []byte("\n"))), int64(len(b)), sha256.Sum256(b)
				f.m.Counts[k.Kind] = k.Lines
			}
		}
	}
	if _, err := replace(filepath.Join(dir, "manifest.json"), f.m); err != nil {
		t.Fatal(err)
	}
}

// An export that was changed so that it fits itself is told by the ledger, or by what
// stands twice in it.
func TestForgedExports(t *testing.T) {
	s := stock(t, 2, 1, 3)
	last := s.events[s.runs[2].ID]
	for i := range s.runs {
		r := &s.runs[i]
		r.State, r.EndedAt, r.Owner, r.Events = ledger.Finished, r.CreatedAt.Add(time.Second), "u-1", int64(r.Folded)
	}
	gone := s.runs[1].ID.String()
	not := func(l string) bool { return !strings.Contains(l, gone) }
	headless := func(f *forged) {
		delete(f.lines, "heads.jsonl")
		f.m.Files = f.m.Files[:len(f.m.Files)-1]
	}
	for _, tt := range []struct {
		name   string
		format Format
		change func(*forged)
		want   string
	}{
		{"nothing", JSONL, func(*forged) {}, ""},
		{"nothing", CSV, func(*forged) {}, ""},
		{"nothing", CloudEvents, func(*forged) {}, ""},
		{"a run is dropped", JSONL, func(f *forged) {
			for name := range f.lines {
				f.cut(name, not)
			}
		}, "the ledger has this run"},
		{"the last run is dropped", CloudEvents, func(f *forged) {
			for name := range f.lines {
				f.cut(name, func(l string) bool { return !strings.Contains(l, s.runs[2].ID.String()) })
			}
		}, "the ledger has this run"},
		{"an end is cut off", CloudEvents, func(f *forged) {
			f.lines["events.cloudevents.jsonl"] = f.lines["events.cloudevents.jsonl"][:5+3+6]
			b, _ := jsonLine(Head{Run: s.runs[2].ID, Seq: 6, Hash: last[5].Hash(), Calls: 6})
			f.lines["heads.jsonl"][2] = string(b)
		}, "the export ends the run before this event"},
		{"a whole history is cut off", CloudEvents, func(f *forged) {
			f.lines["events.cloudevents.jsonl"] = f.lines["events.cloudevents.jsonl"][:5+3]
			b, _ := jsonLine(Head{Run: s.runs[2].ID})
			f.lines["heads.jsonl"][2] = string(b)
		}, "the export ends the run before this event"},
		{"an owner is changed", JSONL, func(f *forged) { f.swap("runs.jsonl", 1, `"owner":"u-1"`, `"owner":"u-2"`) }, `owner is "u-2", the ledger has "u-1"`},
		{"an owner stands twice", JSONL, func(f *forged) { f.swap("runs.jsonl", 1, `"owner":"u-1"`, `"owner":"u-2","owner":"u-1"`) }, "once each"},
		{"an end is changed", JSONL, func(f *forged) { f.swap("runs.jsonl", 1, `"state":"finished"`, `"state":"failed"`) }, "state is"},
		{"a run looks as if it went on", JSONL, func(f *forged) {
			i := strings.Index(f.lines["runs.jsonl"][0], `"ended_at":`)
			f.swap("runs.jsonl", 0, f.lines["runs.jsonl"][0][i:i+len(`"ended_at":"2026-01-15T10:00:02.005Z",`)], "")
		}, "ended_at is empty"},
		{"a sum is changed", CSV, func(f *forged) { f.swap("runs.csv", 2, "Z,3,0,", "Z,2,0,") }, "the ledger has"},
		{"a row is missing", CSV, func(f *forged) { f.lines["runs.csv"] = f.lines["runs.csv"][:3] }, "the run has no row"},
		{"rows are swapped", JSONL, func(f *forged) {
			l := f.lines["runs.jsonl"]
			l[0], l[1] = l[1], l[0]
		}, "in its place"},
		{"a row too many", JSONL, func(f *forged) { f.lines["runs.jsonl"] = append(f.lines["runs.jsonl"], f.lines["runs.jsonl"][0]) }, "rows are left"},
		{"a type of CSV", CSV, func(f *forged) { f.swap("events.csv", 2, "tool_execution_started", "turn_started") }, "column type"},
		{"a time of CSV", CSV, func(f *forged) { f.swap("events.csv", 2, "T10:", "T11:") }, "column time"},
		{"a tenant of CSV", CSV, func(f *forged) { f.swap("events.csv", 2, ",acme,", ",other,") }, "column tenant"},
		{"columns change their names", CSV, func(f *forged) { f.swap("events.csv", 0, "type,version", "version,type") }, "its first line is"},
		{"columns of runs change their names", CSV, func(f *forged) { f.swap("runs.csv", 0, "owner,session_id", "session_id,owner") }, "its first line is"},
		{"a time of CloudEvents", CloudEvents, func(f *forged) { f.swap("events.cloudevents.jsonl", 2, `"time":"2026`, `"time":"2025`) }, "beside the event"},
		{"a source of CloudEvents", CloudEvents, func(f *forged) {
			f.swap("events.cloudevents.jsonl", 2, `"source":"/daybook/acme"`, `"source":"/daybook/other"`)
		}, "beside the event"},
		{"a sequence of CloudEvents", CloudEvents, func(f *forged) {
			f.swap("events.cloudevents.jsonl", 2, `"sequence":"3"`, `"sequence":"4"`)
		}, "beside the event"},
		{"no heads", JSONL, headless, "both count and name heads"},
		{"no heads at all", JSONL, func(f *forged) { headless(f); delete(f.m.Counts, Heads) }, "both count and name heads"},
	} {
		t.Run(tt.name+" "+string(tt.format), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			later := func() time.Time { return moment.Add(time.Hour) }
			if _, err := To(t.Context(), s, Options{Format: tt.format}, dir, later); err != nil {
				t.Fatal(err)
			}
			forge(t, dir, tt.change)
			var texts []string
			found := func(f Fault) error {
				texts = append(texts, f.File+": "+f.Text)
				return nil
			}
			if _, err := Check(t.Context(), dir, func(int64) {}, found); err != nil {
				t.Fatal(err)
			}
			if _, err := Compare(t.Context(), dir, s, found); err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(texts, "\n"); tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
				t.Errorf("found %q, want %q", texts, tt.want)
			}
		})
	}
}

// What came while the export was written, or shortly before, is no finding.
func TestTheLedgerGoesOn(t *testing.T) {
	s := stock(t, 2, 1)
	was := *s
	first := s.runs[0].ID
	was.events = map[events.RunID][]events.Sealed{first: s.events[first][:3]}
	was.runs = []ledger.ExportRun{s.runs[0]}
	was.runs[0].Folded = 3
	dir := filepath.Join(t.TempDir(), "out")
	soon := func() time.Time { return moment.Add(30 * time.Second) }
	if _, err := To(t.Context(), &was, Options{Format: JSONL}, dir, soon); err != nil {
		t.Fatal(err)
	}
	forge(t, dir, func(f *forged) { f.m.Upto = s.runs[1].ID })
	if _, err := Compare(t.Context(), dir, s, func(f Fault) error {
		t.Errorf("%+v", f)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
