//go:build daybook_faults

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

// TestMCPWorkerIsKilled: the worker is killed while an MCP server is at work on a
// destructive call. What becomes of the call is what was declared, the work is
// done once, and no program is left behind, also one that looks at nothing.
func TestMCPWorkerIsKilled(t *testing.T) {
	runner := testenv.Build(t, "cmd/runner")
	const opaque, keyed = "{effect: destructive}", "{effect: destructive, recovery: keyed, ttl: 1h}"
	tests := []struct{ name, transport, tool, arguments, declared, want string }{
		{"nobody can know of a program", "stdio", "hang", `{ id: refund }`, opaque, "parked in_doubt"},
		{"nobody can know of a deaf program", "stdio", "hang", `{ id: refund, how: deaf }`, opaque, "parked in_doubt"},
		{"a program that knows keys", "stdio", "keyed", `{ id: refund }`, keyed, "finished"},
		{"a deaf program that knows keys", "stdio", "keyed", `{ id: refund, how: deaf }`, keyed, "finished"},
		{"nobody can know of an address", "http", "hang", `{ id: refund }`, opaque, "parked in_doubt"},
		{"an address that knows keys", "http", "keyed", `{ id: refund }`, keyed, "finished"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home, noted := t.TempDir(), t.TempDir()
			server := fmt.Sprintf("command: %s, env: {MCPTEST_DIR: %q}", testenv.Build(t, "tools/mcp/mcptest/wild"), noted)
			if tt.transport == "http" {
				s := httptest.NewServer(&mcptest.Server{Dir: noted})
				t.Cleanup(s.Close)
				server = fmt.Sprintf("url: %q", s.URL)
			}
			for name, text := range map[string]string{
				"tools.yaml":  fmt.Sprintf("builtins: [finish]\nmcp:\n  wild: {%s, only: [%s], tools: {%s: %s}}\n", server, tt.tool, tt.tool, tt.declared),
				"AGENT.md":    fmt.Sprintf("---\nname: caller\nmodel: scripted/caller\ntools: [wild__%s, finish]\n---\nDo it.\n", tt.tool),
				"policy.yaml": fmt.Sprintf("model: scripted/caller\nrules:\n  - {name: call, when: {last: user}, answer: {calls: [{name: wild__%s, arguments: %s}]}}\n  - {name: done, when: {last: tool}, answer: {calls: [{name: finish, arguments: {answer: \"{{last}}\"}}]}}\n", tt.tool, tt.arguments),
			} {
				if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			at := func(name string) string { return filepath.Join(home, name) }
			dev := func() *process {
				return start(t, at("log"), nil, runner, "dev", "--dir", at("data"), "--grace", "100ms", "--tools", at("tools.yaml"), "--agents", at("AGENT.md"), "--policy", "caller="+at("policy.yaml"))
			}
			submit := func() (string, error) {
				// 5 is the exit code of a run that is parked.
				out, err := exec.CommandContext(t.Context(), runner, "submit", "--dir", at("data"), "--agent", "caller", "--input", "1", "--key", "one", "--wait", "--timeout", patience.String()).Output()
				if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 5 {
					err = nil
				}
				return string(out), err
			}
			first := dev()
			type answer struct {
				text string
				err  error
			}
			told := make(chan answer, 1)
			go func() {
				text, err := submit()
				told <- answer{text, err}
			}()
			until(t, "the server is at work", func() error {
				if first.ended() {
					log, _ := os.ReadFile(at("log"))
					return errStop{fmt.Errorf("the worker has ended: %w\n%s", first.err, log)}
				}
				if mcptest.Noted(noted, mcptest.Executed) == 0 {
					return errors.New("no call has come")
				}
				return nil
			})
			processes := programs(t, noted)
			if (len(processes) == 1) != (tt.transport == "stdio") {
				t.Fatalf("programs %v are at work", processes)
			}
			first.kill()
			until(t, "the killed worker's program ends", func() error {
				for _, pid := range processes {
					if !testenv.Gone(pid) {
						return fmt.Errorf("process %d is there", pid)
					}
				}
				return nil
			})
			second := dev()
			a := <-told
			out := a.text
			if a.err != nil {
				log, _ := os.ReadFile(at("log"))
				t.Fatalf("submit: %v\n%s\n%s", a.err, out, log)
			}
			state, reason, _ := strings.Cut(tt.want, " ")
			if !strings.Contains(out, " "+state) || !strings.Contains(out, reason) || state == "finished" && !strings.Contains(out, "was done") {
				t.Errorf("want %s, got %s", tt.want, out)
			}
			if n := mcptest.Noted(noted, mcptest.Executed); n != 1 {
				t.Errorf("the work was done %d times", n)
			}
			second.kill()
		})
	}
}

// programs are the process ids that were noted.
func programs(t *testing.T, noted string) (pids []int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(noted, mcptest.Process))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		pid, err := strconv.Atoi(strings.TrimSpace(string(line)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
