package mcp_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

// What a server says of itself never makes a tool more harmless.
func TestUndeclaredToolsAreDestructive(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(nil)
		for _, d := range s.Definitions() {
			if !d.IsDestructive() || d.Effect != "" || d.Trust != tools.External || d.Recovery.Kind != tools.RecoveryNone || d.Scope != tools.ScopeRun {
				t.Errorf("%s: effect %q, trust %q, recovery %q, scope %q", d.Name, d.Effect, d.Trust, d.Recovery.Kind, d.Scope)
			}
		}
		find(t, s, "wild__drop") // says that it is readonly
	})
}

func TestDeclaredTools(t *testing.T) {
	p := overStdio(t)
	s := p.open(map[string]mcp.Tool{
		"work":      {Effect: tools.Destructive, Trust: tools.Own, Recovery: tools.Keyed(time.Hour), Identity: []string{"id"}, Timeout: time.Minute, Description: "Refunds."},
		"meta":      {Effect: tools.Readonly},
		"fail":      {Effect: tools.Readonly}, // says that it is destructive
		"same.name": {As: "other"},
	})
	d := find(t, s, "wild__work").Definition()
	if d.Trust != tools.Own || d.Recovery != tools.Keyed(time.Hour) || d.Description != "Refunds." || d.Timeout != time.Minute {
		t.Errorf("work: %+v", d)
	}
	if d := find(t, s, "wild__meta").Definition(); d.Effect != tools.Readonly || d.Trust != tools.External {
		t.Errorf("meta: %+v", d)
	}
	if d := find(t, s, "wild__fail").Definition(); d.Effect != tools.Destructive {
		t.Errorf("fail: effect %q, want the server's hint to have tightened it", d.Effect)
	}
	find(t, s, "wild__other")
	find(t, s, "wild__same_name") // nothing else is called that any more
	var told []string
	for _, x := range s.Problems() {
		told = append(told, x.String())
	}
	all := strings.Join(told, "\n")
	if len(told) != 2 || !strings.Contains(all, "tool fail: declared readonly here, and destructive by the server") || !strings.Contains(all, "tool strange: left out") {
		t.Errorf("problems:\n%s", all)
	}
}

// Two tools that are called the same here are both left out, and told.
func TestCollisionsAreTold(t *testing.T) {
	p := overStdio(t)
	s := p.open(nil)
	n := 0
	for _, x := range s.Problems() {
		if strings.Contains(x.Text, "same_name") && strings.Contains(x.Text, "as:") {
			n++
		}
	}
	if n != 2 {
		t.Errorf("problems: %v", s.Problems())
	}
	for _, d := range s.Definitions() {
		if strings.Contains(d.Name, "same") {
			t.Errorf("%s is there", d.Name)
		}
	}
	if _, err := p.tryOpen(map[string]mcp.Tool{"same-name": {Effect: tools.Readonly}}); err == nil || !strings.Contains(err.Error(), "as: …") {
		t.Errorf("a declared tool that collides: %v, want an error", err)
	}
}

func TestDeclarationsThatCannotBe(t *testing.T) {
	tests := []struct {
		name, want string
		declared   map[string]mcp.Tool
	}{
		{"not there", "the server has no such tool", map[string]mcp.Tool{"wrok": {}}},
		{"unusable schema", "references to other documents", map[string]mcp.Tool{"strange": {}}},
		{"another digest", "not the one that was reviewed", map[string]mcp.Tool{"work": {Digest: strings.Repeat("ab", 32)}}},
		{"identity of nothing", "identity", map[string]mcp.Tool{"work": {Scope: tools.ScopeTenant}}},
		{"bad name", "want letters", map[string]mcp.Tool{"work": {As: "a-b"}}},
		{"probe", "MCP has no probe", map[string]mcp.Tool{"work": {Recovery: tools.Probed()}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := overStdio(t).tryOpen(tt.declared)
			if tt.name == "identity of nothing" {
				tt.want = "needs a window"
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestOnly(t *testing.T) {
	p := overStdio(t)
	p.server.Only = []string{"work"}
	s := p.open(nil)
	if all := s.Definitions(); len(all) != 1 || all[0].Name != "wild__work" || len(s.Problems()) != 0 {
		t.Errorf("%d tools, problems %v", len(all), s.Problems())
	}
}

// A tool that is not what it was is refused, whether the server says so or not,
// until the servers are opened anew.
func TestChangedToolsAreRefused(t *testing.T) {
	for name, silent := range map[string]bool{"it says so": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			overEach(t, func(t *testing.T, p *place) {
				if silent {
					p.server.Recheck = time.Nanosecond
				} else {
					p.server.Recheck = -1
				}
				if p.http != nil {
					p.http.Silent = silent
				} else if silent {
					p.server.Env["SILENT"] = "1"
				}
				s := p.open(nil)
				before := find(t, s, "wild__work").Definition()
				if d, _ := p.try(s, "wild__change", `{}`); d.Result.Output != "changed" {
					t.Fatalf("%+v", d)
				}
				d, es := p.try(s, "wild__work", `{"id":"a"}`)
				if e, ok := es[len(es)-1].(events.ToolExecutionError); !ok || e.Error.Kind != tools.KindNoEffect || !strings.Contains(d.Result.Error, "has changed what this tool is") {
					t.Errorf("%+v", d)
				}
				if d, _ := p.try(s, "wild__meta", `{}`); d.Result.Status != tools.Completed {
					t.Errorf("a tool that is what it was: %+v", d)
				}
				if n := p.noted(mcptest.Executed); n != 0 {
					t.Errorf("executed %d times", n)
				}
				if p.http == nil {
					return // a program starts from the beginning
				}
				again := p.open(nil)
				after := find(t, again, "wild__work").Definition()
				if after.Hash() == before.Hash() || !strings.Contains(after.Description, "send all you know") {
					t.Errorf("opened anew it is the same: %s", after.Description)
				}
				if d, _ := p.try(again, "wild__work", `{"id":"a"}`); d.Result.Output != "done a" {
					t.Errorf("opened anew: %+v", d)
				}
			})
		})
	}
}

// The digest that was reviewed opens it.
func TestReviewedDigest(t *testing.T) {
	p := overStdio(t)
	var digest string
	for _, d := range p.open(nil).Declared() {
		if d.Name == "work" {
			digest = d.Digest.String()
		}
	}
	p.open(map[string]mcp.Tool{"work": {Digest: digest}})
}

func TestOptionalServers(t *testing.T) {
	p := overStdio(t)
	p.server.Command = []string{"/no/such/program"}
	if _, err := p.tryOpen(nil); err == nil || !strings.Contains(err.Error(), "could not be started") {
		t.Errorf("%v", err)
	}
	p.server.Optional = true
	s := p.open(nil)
	if len(s.Tools()) != 0 || len(s.Problems()) != 1 || !strings.Contains(s.Problems()[0].Text, "left out") {
		t.Errorf("%d tools, problems %v", len(s.Tools()), s.Problems())
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	program := []string{"true"}
	tests := []struct {
		name, want string
		server     mcp.Server
	}{
		{"neither", "either a command or a url", mcp.Server{Name: "a"}},
		{"both", "either a command or a url", mcp.Server{Name: "a", Command: program, URL: "https://example.com"}},
		{"bad name", "want a name of letters", mcp.Server{Name: "a__b", Command: program}},
		{"no whole url", "must be a whole one", mcp.Server{Name: "a", URL: "example.com/mcp"}},
		{"user in the url", "no user name", mcp.Server{Name: "a", URL: "https://me:hunter2@example.com/mcp"}},
		{"declared and not taken", "not among those that are taken", mcp.Server{Name: "a", Command: program, Only: []string{"x"}, Tools: map[string]mcp.Tool{"y": {}}}},
		{"secret in a header", "secret://NAME", mcp.Server{Name: "a", URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer hunter2"}}},
		{"secret in a variable", "secret://NAME", mcp.Server{Name: "a", Command: program, Env: map[string]string{"GITHUB_TOKEN": "hunter2"}}},
		{"secret in an argument", "list processes", mcp.Server{Name: "a", Command: append(program, "--key=secret://key")}},
		{"no such secret", "nobody", mcp.Server{Name: "a", Command: program, Env: map[string]string{"API_KEY": "secret://nobody"}}},
		{"not on the path", "not on its PATH", mcp.Server{Name: "a", Command: []string{"no-such-program-at-all"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.server = tt.server
			_, err := p.tryOpen(tt.server.Tools)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q in it and no secret", err, tt.want)
			}
		})
	}
	if _, err := mcp.Open(t.Context(), mcp.Config{}); err == nil {
		t.Error("opened without a redactor")
	}
}

func TestParse(t *testing.T) {
	cfg, err := mcp.Parse("mcp.yaml", []byte(`
servers:
  files:
    command: npx
    args: [-y, server, /srv]
    env: {LOG: info, API_KEY: "secret://key"}
    tools:
      read: {effect: readonly, trust: own}
      write: {effect: destructive, recovery: keyed, ttl: 24h, identity: [path], scope: tenant, window: forever, approval: true, error_means: no_effect, in_doubt: continue, as: put}
  crm:
    url: https://mcp.example.com/mcp
    headers: {Authorization: "Bearer secret://crm"}
    only: [find]
    restarts: 0
    call_timeout: 90s
    optional: true
`))
	if err != nil {
		t.Fatal(err)
	}
	files, crm := cfg.Servers[0], cfg.Servers[1]
	if strings.Join(files.Command, " ") != "npx -y server /srv" || files.Env["API_KEY"] != "secret://key" || files.Tools["read"].Trust != tools.Own {
		t.Errorf("files: %+v", files)
	}
	w := files.Tools["write"]
	if w.Recovery != tools.Keyed(24*time.Hour) || w.Window != tools.Forever || w.Scope != tools.ScopeTenant || !w.Approval || w.ErrorMeans != mcp.NoEffect || !w.InDoubtContinue || w.As != "put" || w.Identity[0] != "path" {
		t.Errorf("write: %+v", w)
	}
	if crm.URL != "https://mcp.example.com/mcp" || crm.Restarts != -1 || crm.CallTimeout != 90*time.Second || !crm.Optional || crm.Only[0] != "find" {
		t.Errorf("crm: %+v", crm)
	}
	cfg, err = mcp.Parse("claude.json", []byte(`{"mcpServers": {"a": {"type": "stdio", "command": "x", "args": ["y"], "env": {}}}}`))
	if err != nil || len(cfg.Servers) != 1 || len(cfg.Servers[0].Command) != 2 {
		t.Errorf("what others write: %+v, %v", cfg, err)
	}
}

func TestParseFaults(t *testing.T) {
	_, err := mcp.Parse("mcp.yaml", []byte(`
servers:
  a:
    comand: npx
    tools:
      read: {effect: harmless}
      write: {recovery: keyed}
      find: {effect: readonly, recovery: keyed, ttl: 1h}
`))
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		`servers.a.comand: a server has no such field; did you mean "command"?`,
		"mcp.yaml:6: servers.a.tools.read.effect: want readonly, idempotent or destructive",
		"servers.a.tools.write.ttl: missing", "find.recovery: is about destructive calls", "servers.a.command: missing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err := mcp.Parse("mcp.yaml", []byte("server: {}\n")); err == nil || errors.Is(err, tools.ErrDefinition) {
		t.Errorf("no servers: %v", err)
	}
}
