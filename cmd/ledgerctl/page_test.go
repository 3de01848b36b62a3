package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPage runs the console lines of docs/ledgerctl.md: what they print stands below
// them. -update writes it there.
func TestPage(t *testing.T) {
	const path = "../../docs/ledgerctl.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "ledger")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := fill(dir); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DAYBOOK_DIR", dir)
	var out []string
	inside, ran := false, 0
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case inside && isCommand:
			words := shellWords(t, command)
			var stdout, stderr strings.Builder
			a := newApp(strings.NewReader(""), &stdout, &stderr, func() time.Time { return asked })
			if code := a.run(context.Background(), words[1:]); code != 0 || stdout.Len() == 0 {
				t.Errorf("%s: exit code %d, prints %q: %s", command, code, &stdout, &stderr)
			}
			out = append(append(out, line), strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")...)
			ran++
			continue
		case inside:
			continue // the output, which is new
		}
		out = append(out, line)
	}
	got := strings.Join(out, "\n") + "\n"
	switch {
	case ran < 12:
		t.Errorf("%d lines were run", ran)
	case got == string(page):
	case *update:
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/ledgerctl.md does not show what its commands print; run go test ./cmd/ledgerctl -run TestPage -update and look at the difference:\n%s", firstDifference(string(page), got))
	}
}

// shellWords are the words that a shell makes of a line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
