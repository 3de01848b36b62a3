package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestFilesStayInTheFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	for _, err := range []error{
		os.Mkdir(folder, 0o700),
		os.WriteFile(filepath.Join(dir, "outside.md"), []byte("not for the agent"), 0o600),
		os.Symlink(filepath.Join(dir, "outside.md"), filepath.Join(folder, "link.md")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(self, "files", folder)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	for _, tt := range []struct {
		name, tool string
		args       map[string]any
		ok         bool
	}{
		{"write", "write_file", map[string]any{"path": "a.md", "content": "kelp"}, true},
		{"read", "read_text_file", map[string]any{"path": "a.md"}, true},
		{"read above", "read_text_file", map[string]any{"path": "../outside.md"}, false},
		{"read by its whole path", "read_text_file", map[string]any{"path": filepath.Join(dir, "outside.md")}, false},
		{"read through a link", "read_text_file", map[string]any{"path": "link.md"}, false},
		{"write above", "write_file", map[string]any{"path": "../outside.md", "content": "kelp"}, false},
		{"write through a link", "write_file", map[string]any{"path": "link.md", "content": "kelp"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, c := range r.Content {
				if c, ok := c.(*mcp.TextContent); ok {
					text.WriteString(c.Text)
				}
			}
			if r.IsError == tt.ok || strings.Contains(text.String(), "not for the agent") {
				t.Errorf("isError %v: %s", r.IsError, &text)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(dir, "outside.md")); err != nil || string(b) != "not for the agent" {
		t.Errorf("the file outside is %q, %v", b, err)
	}
}
