package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func TestNotes(t *testing.T) {
	read := func(t *testing.T, p tools.Past, args string) events.ToolResult {
		t.Helper()
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.Notes(), Arguments: json.RawMessage(args), Past: p})
		return d.Result
	}
	posted := func(entries ...string) past {
		p := past{}
		for _, e := range entries {
			b, _ := json.Marshal(map[string]string{"post": e})
			p["notes"] = append(p["notes"], tools.PastCall{Arguments: b, Output: "posted"})
		}
		return p
	}
	t.Run("SG-61 an entry is posted", func(t *testing.T) {
		if r := read(t, past{}, `{"post":"x"}`); r.Output != "posted" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SG-61 a new run starts empty", func(t *testing.T) {
		if r := read(t, past{}, `{}`); r.Output != "there are no notes" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SG-61 entries are read in order", func(t *testing.T) {
		p := posted("first", "second\nline")
		p["notes"] = append(p["notes"], tools.PastCall{Arguments: json.RawMessage(`{}`), Output: "1. first"})
		if r := read(t, p, `{}`); r.Output != "1. first\n2. second\nline" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SG-61 of very many the latest are read", func(t *testing.T) {
		var all []string
		for i := range 100 {
			all = append(all, fmt.Sprintf("note %d %s", i, strings.Repeat("x", 1000)))
		}
		r := read(t, posted(all...), `{}`)
		if !strings.HasPrefix(r.Output, "(the 52 oldest notes are left out)\n53. note 52 ") || !strings.Contains(r.Output, "100. note 99") || r.Truncated != nil {
			t.Errorf("%.100s … of %d bytes", r.Output, len(r.Output))
		}
	})
	t.Run("SG-61 without a history nothing is pretended", func(t *testing.T) {
		if r := read(t, nil, `{"post":"x"}`); r.Status != tools.Failed {
			t.Errorf("%+v", r)
		}
	})
}

func TestCurrentTime(t *testing.T) {
	at := func() time.Time { return time.Date(2026, 7, 1, 23, 30, 0, 0, time.UTC) }
	told := func(t *testing.T, zone, args string) string {
		t.Helper()
		r := call(t, currentTime(t, builtin.CurrentTimeConfig{DefaultTimeZone: zone, Now: at}), args)
		return r.Output + r.Error
	}
	for _, tt := range []struct{ name, zone, args, want string }{
		{"SG-63 in the default zone", "Asia/Dhaka", `{}`, `{"time":"2026-07-02T05:30:00+06:00","time_zone":"Asia/Dhaka","weekday":"Thursday","unix":1782948600}`},
		{"SG-63 in UTC if there is none", "", `{}`, `{"time":"2026-07-01T23:30:00Z","time_zone":"UTC","weekday":"Wednesday","unix":1782948600}`},
		{"SG-63 in another zone", "", `{"time_zone":"America/New_York"}`, `{"time":"2026-07-01T19:30:00-04:00","time_zone":"America/New_York","weekday":"Wednesday","unix":1782948600}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(t, tt.zone, tt.args); got != tt.want {
				t.Errorf("told %s, want %s", got, tt.want)
			}
		})
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "../../etc/passwd", "+01:00", "europe berlin", strings.Repeat("x", 1000)} {
		t.Run("SG-63 no such zone "+zone[:min(len(zone), 20)], func(t *testing.T) {
			if _, err := builtin.CurrentTime(builtin.CurrentTimeConfig{DefaultTimeZone: zone}); err == nil || len(err.Error()) > 300 {
				t.Errorf("as the default: %v", err)
			}
			args, _ := json.Marshal(map[string]string{"time_zone": zone})
			if got := told(t, "", string(args)); !strings.Contains(got, "is no IANA time zone") {
				t.Errorf("in a call: %s", got)
			}
		})
	}
	t.Run("SG-63 an empty zone is none", func(t *testing.T) {
		if got := told(t, "", `{"time_zone":""}`); !strings.Contains(got, "is no IANA time zone") {
			t.Errorf("told %s", got)
		}
	})
}

func TestEscalate(t *testing.T) {
	var got []builtin.Escalation
	fail := error(nil)
	tool := builtin.Escalate(builtin.EscalateConfig{OnEscalate: func(_ context.Context, e builtin.Escalation) error {
		got = append(got, e)
		return fail
	}})
	p := toolstest.Probe{Tool: tool, Arguments: json.RawMessage(`{"question":"may I?","background":"it is late"}`)}
	t.Run("SG-64 a person is told, and the run waits", func(t *testing.T) {
		d, _ := toolstest.DispatchAndCollect(t, p)
		if d.State != tools.StateHandedOff || d.HandedOff.For != builtin.DefaultEscalation || d.HandedOff.Reason != events.ParkAsyncTool || d.Trust != tools.Own {
			t.Errorf("%+v", d)
		}
		if len(got) != 1 || got[0].Token != d.Token || got[0].Question != "may I?" || got[0].Background != "it is late" || got[0].Within != builtin.DefaultEscalation {
			t.Errorf("told %+v", got)
		}
	})
	t.Run("SG-64 made again it is the same question", func(t *testing.T) {
		got, p.Run = nil, toolstest.NewLedger().Run()
		toolstest.DispatchAndCollect(t, p)
		toolstest.DispatchAndCollect(t, p)
		if len(got) != 2 || got[0].Token != got[1].Token {
			t.Errorf("told %+v", got)
		}
		p.Run = nil
	})
	t.Run("SG-64 nobody could be told", func(t *testing.T) {
		fail = errors.New("no signal")
		if d, _ := toolstest.DispatchAndCollect(t, p); d.State != tools.StateDone || d.Result.Error != "nobody could be told: no signal" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("SG-64 it is pinned", func(t *testing.T) {
		if !tool.Definition().Pinned {
			t.Error("it is not")
		}
	})
	t.Run("SG-64 a question must be asked", func(t *testing.T) {
		for _, args := range []string{`{"question":" "}`, `{"question":"` + strings.Repeat("x", 20_000) + `"}`} {
			if r := call(t, tool, args); r.Error == "" {
				t.Errorf("%.40s: %+v", args, r)
			}
		}
	})
}

func TestPublish(t *testing.T) {
	var got []builtin.Publication
	var answer func() (string, error)
	tool := builtin.Publish(builtin.PublishConfig{
		Publish:  func(_ context.Context, p builtin.Publication) (string, error) { got = append(got, p); return answer() },
		Recovery: tools.Keyed(time.Hour),
	})
	const args = `{"name":"report.md","content":"# R","media_type":"text/markdown"}`
	publish := func(t *testing.T, run *toolstest.Run, turn int, args string) tools.Disposition {
		t.Helper()
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Run: run, Call: events.CallID{Turn: turn}, Arguments: json.RawMessage(args)})
		return d
	}
	t.Run("SG-78 the host publishes under the key of the effect", func(t *testing.T) {
		got, answer = nil, func() (string, error) { return "https://example.org/report.md", nil }
		run := toolstest.NewLedger().Run()
		d := publish(t, run, 1, args)
		if d.Result.Output != `{"url":"https://example.org/report.md"}` || len(got) != 1 || got[0].Key != d.Verdict.Ref.OpKey.String() || len(got[0].Key) != 64 || got[0].Content != "# R" {
			t.Errorf("%+v, published %+v", d, got)
		}
		if again := publish(t, run, 2, args); again.Result.Output != d.Result.Output || len(got) != 1 {
			t.Errorf("asked again: %+v, published %d times", again, len(got))
		}
	})
	t.Run("SG-78 an error leaves it in doubt", func(t *testing.T) {
		answer = func() (string, error) { return "", errors.New("connection reset") }
		if d := publish(t, nil, 1, args); d.State != tools.StateInDoubt {
			t.Errorf("%+v", d)
		}
	})
	t.Run("SG-78 unless certainly nothing was published", func(t *testing.T) {
		answer = func() (string, error) { return "", tools.NoEffect(errors.New("quota")) }
		if d := publish(t, nil, 1, args); d.State != tools.StateDone || d.Result.Error != "quota" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("SG-78 bad names never reach the host", func(t *testing.T) {
		got = nil
		for _, name := range []string{"", " ", "a/b", `a\b`, "../x", ".hidden", "a:b", "a\u0000", "a\u202eb", strings.Repeat("x", 200)} {
			args, _ := json.Marshal(map[string]string{"name": name, "content": "x"})
			if d := publish(t, nil, 1, string(args)); d.State != tools.StateDone || d.Result.Status != tools.Failed || len(got) > 0 {
				t.Errorf("%q: %+v, published %+v", name, d, got)
			}
		}
		for _, args := range []string{
			`{"name":"a","content":""}`, `{"name":"a","content":"x","media_type":"html"}`, `{"name":"a","content":"x","media_type":"text/html; charset=x"}`,
			`{"name":"a","content":"` + strings.Repeat("x", builtin.MaxPublication+1) + `"}`,
		} {
			if d := publish(t, nil, 1, args); d.State != tools.StateDone || d.Result.Status != tools.Failed || len(got) > 0 {
				t.Errorf("%.60s: %+v, published %+v", args, d, got)
			}
		}
	})
	t.Run("SG-78 it is destructive", func(t *testing.T) {
		if tool.Definition().Effect != tools.Destructive {
			t.Error(tool.Definition().Effect)
		}
	})
	t.Run("SG-78 it needs the host", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("there is a publish without a host")
			}
		}()
		builtin.Publish(builtin.PublishConfig{})
	})
}

// SG-54: importing the package does nothing. There is no init, no blank import,
// and no variable is made by anything but errors.New, regexp.MustCompile or literals.
func TestImportingHasNoEffect(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 10 {
		t.Fatalf("files %v, %v", names, err)
	}
	files := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if i.Name != nil && i.Name.Name == "_" {
				t.Errorf("%s: SG-54: a blank import is there for its effect", files.Position(i.Pos()))
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s: SG-54: an init function", files.Position(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if c, ok := n.(*ast.CallExpr); ok && !harmless(c) {
						t.Errorf("%s: SG-54: a call when the package is imported", files.Position(c.Pos()))
					}
					return true
				})
			}
		}
	}
	t.Run("SG-54 no tool is in a registry until the host puts it there", func(t *testing.T) {
		if n := len(new(tools.Registry).Tools()); n != 0 {
			t.Errorf("%d tools in a new registry", n)
		}
	})
}

func harmless(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	p, ok := s.X.(*ast.Ident)
	return ok && (p.Name == "errors" && s.Sel.Name == "New" || p.Name == "regexp" && s.Sel.Name == "MustCompile")
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		tool tools.Tool
		want string
	}{
		{builtin.Calculate(), "calculate"},
		{currentTime(t, builtin.CurrentTimeConfig{}), "current_time"},
		{builtin.DateMath(), "date_math"},
		{builtin.Dates(), "dates"},
		{builtin.JSONQuery(), "json_query"},
		{builtin.Notes(), "notes"},
		{builtin.Escalate(builtin.EscalateConfig{}), "escalate"},
		{builtin.Publish(builtin.PublishConfig{Publish: publish}), "publish"},
	} {
		t.Run("SG-56 "+tt.want, func(t *testing.T) {
			if got := tt.tool.Definition().Name; got != tt.want {
				t.Errorf("the model sees %s", got)
			}
		})
	}
}
