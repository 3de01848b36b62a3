package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// publicServer is the command of one of the reference servers, as they come from
// the npm registry.
func publicServer(t *testing.T, name string, args ...string) []string {
	t.Helper()
	node := testenv.Node(t)
	modules := testenv.NPM(t, filepath.Join("testdata", "npm"))
	return append([]string{node, filepath.Join(modules, "@modelcontextprotocol", name, "dist", "index.js")}, args...)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The reference file system server, with its tools declared as a host would.
func TestFilesystemServer(t *testing.T) {
	p := newPlace(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p.server = mcp.Server{Name: "files", Command: publicServer(t, "server-filesystem", dir)}
	s := p.open(map[string]mcp.Tool{
		"read_text_file": {Effect: tools.Readonly},
		"list_directory": {Effect: tools.Readonly, Trust: tools.Own},
		"write_file":     {Effect: tools.Readonly}, // a mistake of the host's
		"edit_file":      {Effect: tools.Destructive, ErrorMeans: mcp.NoEffect},
	})
	if d := find(t, s, "files__write_file").Definition(); d.Effect != tools.Idempotent {
		t.Errorf("write_file is %q, want the server's own hints to have made it idempotent", d.Effect)
	}
	file := filepath.Join(dir, "a.txt")
	try := func(run *toolstest.Run, turn int, name string, args map[string]any) tools.Disposition {
		t.Helper()
		d, _ := p.tryIn(run, turn, s, name, jsonOf(t, args))
		return d
	}
	run := toolstest.NewLedger().Run()
	if d := try(run, 1, "files__write_file", map[string]any{"path": file, "content": "one\ntwo\n"}); d.Result.Status != tools.Completed {
		t.Fatalf("write: %+v", d)
	}
	if d := try(run, 2, "files__read_text_file", map[string]any{"path": file}); d.Result.Output != "one\ntwo\n" || d.Result.Trust != "external" {
		t.Errorf("read: %+v", d)
	}
	if d := try(run, 3, "files__list_directory", map[string]any{"path": dir}); d.Result.Output != "[FILE] a.txt" {
		t.Errorf("list: %+v", d)
	}
	if d := try(run, 4, "files__read_text_file", map[string]any{"path": "/etc/hostname"}); d.State != tools.StateDone || !strings.Contains(d.Result.Error, "Access denied") {
		t.Errorf("outside: %+v", d)
	}
	if d := try(run, 5, "files__read_text_file", map[string]any{"path": 7}); d.Blocked != events.BlockedInvalidArguments {
		t.Errorf("a number for a path: %+v", d)
	}
	edit := map[string]any{"path": file, "edits": []any{map[string]any{"oldText": "two", "newText": "three"}}}
	if d := try(run, 6, "files__edit_file", edit); d.Result.Status != tools.Completed {
		t.Errorf("edit: %+v", d)
	}
	// The same again is answered from the ledger; run, it would find no "two".
	if d := try(run, 7, "files__edit_file", edit); d.Result.Status != tools.Completed || d.Verdict.Kind != tools.Replay {
		t.Errorf("edit again: %+v", d)
	}
	wrong := map[string]any{"path": file, "edits": []any{map[string]any{"oldText": "nine", "newText": "ten"}}}
	if d := try(run, 8, "files__edit_file", wrong); d.State != tools.StateInDoubt {
		t.Errorf("an edit that does not fit: %+v, want it in doubt: the tool has an outputSchema", d)
	}
	// Not declared: destructive, whatever its name.
	sub := filepath.Join(dir, "sub")
	for turn := 9; turn <= 10; turn++ {
		if d := try(run, turn, "files__create_directory", map[string]any{"path": sub}); d.Result.Status != tools.Completed {
			t.Errorf("create: %+v", d)
		}
		if turn == 9 {
			if err := os.Remove(sub); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(sub); err == nil {
		t.Error("the second call, which was the same, was made")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "one\nthree\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// The reference server that has everything, over both transports.
func TestEverythingServer(t *testing.T) {
	t.Setenv("HOST_ONLY", "belongs-to-the-host")
	t.Run("stdio", func(t *testing.T) {
		p := newPlace(t)
		p.server = mcp.Server{Name: "all", Command: publicServer(t, "server-everything"), Env: map[string]string{"API_KEY": "secret://key"}}
		s := everything(t, p)
		d, _ := p.try(s, "all__get_env", `{}`)
		if !strings.Contains(d.Result.Output, `"API_KEY"`) || strings.Contains(d.Result.Output, canary) || strings.Contains(d.Result.Output, "HOST_ONLY") {
			t.Errorf("environment: %+v", d.Result)
		}
	})
	t.Run("http", func(t *testing.T) {
		p := newPlace(t)
		p.server = mcp.Server{Name: "all", URL: startHTTP(t)}
		everything(t, p)
	})
}

// startHTTP starts the server on a port that is free, and waits until it is this
// one that says it listens. The server does not tell which port it was given, so
// one is chosen here, and another if somebody else was faster.
func startHTTP(t *testing.T) string {
	t.Helper()
	argv := publicServer(t, "server-everything", "streamableHttp")
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		c.Env = append(os.Environ(), "PORT="+port)
		out, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines, listens := bufio.NewScanner(out), false
		for !listens && lines.Scan() {
			listens = strings.HasSuffix(lines.Text(), "listening on port "+port)
		}
		if !listens { // it has ended
			t.Logf("port %s: %q, %v", port, lines.Text(), c.Wait())
			continue
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines.Scan() {
			}
		}()
		t.Cleanup(func() {
			_ = c.Process.Kill()
			<-read
			_ = c.Wait()
		})
		return fmt.Sprintf("http://127.0.0.1:%s/mcp", port)
	}
	t.Fatal("it listens on no port")
	return ""
}

// everything calls what the server has to show.
func everything(t *testing.T, p *place) *mcp.Servers {
	t.Helper()
	s := p.open(map[string]mcp.Tool{
		"echo": {Effect: tools.Readonly}, "get-sum": {Effect: tools.Readonly}, "get-structured-content": {Effect: tools.Readonly},
		"trigger-long-running-operation": {Effect: tools.Destructive, Timeout: 20 * time.Second, As: "operate"},
	})
	tests := []struct{ tool, args, want string }{
		{"all__echo", `{"message":"grüß dich \u0000"}`, "Echo: grüß dich"},
		{"all__get_sum", `{"a":2,"b":40}`, "42"},
		{"all__get_tiny_image", `{}`, "[image, image/png, 4033 bytes, not shown]"},
		{"all__get_resource_links", `{"count":2}`, "[link: Text Resource 2 <demo://resource/dynamic/text/2> text/plain]"},
		{"all__get_resource_reference", `{}`, "[resource: demo://resource/dynamic/text/1]\nResource 1: "},
		{"all__get_annotated_message", `{"messageType":"error"}`, "Error: Operation failed"},
		{"all__get_structured_content", `{"location":"Chicago"}`, `"temperature"`},
	}
	for _, tt := range tests {
		if d, _ := p.try(s, tt.tool, tt.args); d.State != tools.StateDone || !strings.Contains(d.Result.Output, tt.want) {
			t.Errorf("%s: %+v, want %q in it", tt.tool, d, tt.want)
		}
	}
	if d, _ := p.try(s, "all__get_resource_links", `{"count":2}`); len(d.Result.Sources) != 2 {
		t.Errorf("sources: %+v", d.Result.Sources)
	}
	d, es := p.try(s, "all__operate", `{"duration":0.3,"steps":3}`)
	reports := 0
	for _, typ := range toolstest.TypesOf(es) {
		if typ == "tool_execution_progress" {
			reports++
		}
	}
	if !strings.Contains(d.Result.Output, "completed") || reports != 3 {
		t.Errorf("long operation: %+v with %d reports, want 3", d, reports)
	}
	return s
}
