// Package docs is pages for people; its tests do what the pages say.
package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
)

// maxLines is how long a program, and all files of an agent, may be that a
// newcomer writes.
const maxLines = 40

// block is a fenced block of a page.
type block struct {
	line     int    // of its fence
	section  string // heading above it
	file     string // "Save as `NAME`" stands before it
	language string
	text     string
}

var (
	saveAs = regexp.MustCompile("^Save as `([^`]+)`")
	// unstable is what is another each time: ids, keys, moments, ages and widths.
	unstable = []struct {
		rule *regexp.Regexp
		mark string
	}{
		{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "RUN"},
		{regexp.MustCompile(`\b[0-9a-f]{16,64}\b`), "KEY"},
		{regexp.MustCompile(`(^| )\d+(ms|s|m)\b`), "${1}AGE"},
		{regexp.MustCompile(` +`), " "},
	}
)

func blocks(page string) (all []block) {
	var b *block
	section, file := "", ""
	for i, line := range strings.Split(page, "\n") {
		switch {
		case b == nil && strings.HasPrefix(line, "```"):
			b = &block{line: i + 1, section: section, file: file, language: line[3:]}
			file = ""
		case b == nil && strings.HasPrefix(line, "## "):
			section = line[3:]
		case b == nil:
			if m := saveAs.FindStringSubmatch(line); m != nil {
				file = m[1]
			}
		case line == "```":
			all, b = append(all, *b), nil
		default:
			b.text += line + "\n"
		}
	}
	return all
}

// steady brings a line into the form in which it is compared.
func steady(line string) string {
	for _, u := range unstable {
		line = u.rule.ReplaceAllString(line, u.mark)
	}
	return strings.TrimSpace(line)
}

// same reports whether got is what a page shows. … is any text, on a line of its
// own any lines.
func same(want, got string) bool {
	var rule strings.Builder
	rule.WriteString(`^\s*`)
	for line := range strings.Lines(want) {
		if line = steady(line); line == "…" {
			rule.WriteString(`(.*\n)*?`)
			continue
		}
		rule.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	var lines strings.Builder
	for line := range strings.Lines(got) {
		if line = steady(line); line != "" {
			lines.WriteString(line + "\n")
		}
	}
	return regexp.MustCompile(rule.String() + `\s*$`).MatchString(lines.String())
}

// TestGettingStarted does what the page tells a newcomer to do, with what it
// tells to write, and compares what it shows.
func TestGettingStarted(t *testing.T) {
	page, err := os.ReadFile("getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(string(page))
	script, wanted := scripted(t, all)
	written := map[string]int{}
	for _, b := range all {
		if b.file == "" {
			continue
		}
		lines := strings.Count(b.text, "\n")
		if lines > maxLines {
			t.Errorf("line %d: %s has %d lines, want %d at most", b.line, b.file, lines, maxLines)
		}
		written[b.section] += lines
	}
	for section, lines := range written {
		if lines > maxLines {
			t.Errorf("%q has one write %d lines, want %d at most", section, lines, maxLines)
		}
	}
	if len(written) != 2 || len(wanted) < 6 {
		t.Fatalf("files in %d sections and %d outputs: the test does not understand the page", len(written), len(wanted))
	}
	out := typed(t, root, script)
	got := outputs(out)
	for i, b := range wanted {
		if !same(b.text, got[i]) {
			t.Errorf("line %d: the page shows\n%s\nand it prints\n%s", b.line, b.text, got[i])
		}
	}
	if t.Failed() {
		t.Logf("all of it:\n%s", out)
	}
}

// mark stands before the output of each block.
const mark = "=== block "

// scripted makes one script of a page's blocks, and says which have an output beside them.
func scripted(t *testing.T, all []block) (script string, wanted map[int]block) {
	t.Helper()
	script, wanted = "set -eu\n", map[int]block{}
	for i, b := range all {
		switch {
		case b.file != "":
			script += fmt.Sprintf("cat > '%s' <<'END-OF-FILE'\n%sEND-OF-FILE\n", b.file, b.text)
		case b.language == "sh" && strings.HasPrefix(b.text, "git clone"): // the test has built them
		case b.language == "sh":
			script += fmt.Sprintf("echo '%s%d'\n%s", mark, i, b.text)
		case b.language == "text" && i > 0 && all[i-1].language == "sh":
			wanted[i-1] = b
		default:
			t.Errorf("line %d: the test does not know what to do with a block of %q", b.line, b.language)
		}
	}
	return script, wanted
}

// outputs are those of each block.
func outputs(out string) map[int]string {
	got := map[int]string{}
	for part := range strings.SplitSeq(out, mark) {
		var i int
		head, text, _ := strings.Cut(part, "\n")
		if _, err := fmt.Sscan(head, &i); err == nil {
			got[i] = text
		}
	}
	return got
}

// typed runs a script as a newcomer's terminal would, in an empty folder, and
// ends whatever it has left running.
func typed(t *testing.T, root, script string) string {
	t.Helper()
	bin := filepath.Dir(testenv.Build(t, "cmd/runner"))
	ledgerctl := filepath.Dir(testenv.Build(t, "cmd/ledgerctl"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", script)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(),
		"PATH="+bin+":"+ledgerctl+":"+os.Getenv("PATH"), "DAYBOOK="+root, "NO_COLOR=1",
		"GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-mod=mod", "GOWORK=off", // what the checkout has, and no network
	)
	var out, aside bytes.Buffer // waiting and its warnings are another each time
	c.Stdout, c.Stderr = &out, &aside
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // workers that a fault has left
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		for _, log := range []string{"post/worker.log", "worker.log"} {
			if b, err := os.ReadFile(filepath.Join(c.Dir, log)); err == nil {
				fmt.Fprintf(&aside, "%s:\n%s", log, b)
			}
		}
		t.Fatalf("%v\n%s\n%s", err, out.String(), aside.String())
	}
	return out.String()
}

// TestPagesAreCompared: an output that differs in what is stable is told.
func TestPagesAreCompared(t *testing.T) {
	const got = "run 01M8P7KQXQG3JF3ZXMRZJ2SGXZ finished\nCALL   AGE\nx/t1.c0  12s  3 calls\n"
	for want, is := range map[string]bool{
		"run 01M8P7KS2S7WE4KXMEFMJXNT57 finished\nCALL AGE\nx/t1.c0   4s  3 calls\n": true,
		"run 01M8P7KS2S7WE4KXMEFMJXNT57 …\n…\nx/t1.c0   4s  3 calls\n":               true,
		"run 01M8P7KS2S7WE4KXMEFMJXNT57 finished\n…\n":                               true,
		"run 01M8P7KS2S7WE4KXMEFMJXNT57 failed\n…\n":                                 false,
		"run 01M8P7KS2S7WE4KXMEFMJXNT57 finished\nCALL AGE\nx/t1.c0 4s 2 calls\n":    false,
		"run 01M8P7KS2S7WE4KXMEFMJXNT57 finished\nCALL AGE\n":                        false,
		"CALL AGE\nx/t1.c0   4s  3 calls\n":                                          false,
	} {
		if same(want, got) != is {
			t.Errorf("same = %t\n%s", !is, want)
		}
	}
}
