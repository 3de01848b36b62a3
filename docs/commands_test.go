package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
)

// command is what the help of a command says that can be typed.
type command struct {
	below map[string]*command
	flags []string // with dashes
}

var (
	belowOf = regexp.MustCompile(`(?m)^  ([a-z][\w-]*) {2,}\S`)
	flagsOf = regexp.MustCompile(`(?m)^ +(?:(-\w), )?(--[\w-]+)`)
)

// helped asks a binary for all its commands.
func helped(t *testing.T, bin string, path ...string) *command {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), bin, append(path, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v --help: %v\n%s", bin, path, err, out)
	}
	_, text, ok := strings.Cut(string(out), "\nUsage:\n")
	if !ok {
		t.Fatalf("%s %v --help shows no usage:\n%s", bin, path, out)
	}
	c := &command{below: map[string]*command{}, flags: []string{"-h", "--help"}}
	list, flags, _ := strings.Cut(text, "\nFlags:\n")
	if _, list, ok = strings.Cut(list, "Available Commands:\n"); ok {
		for _, m := range belowOf.FindAllStringSubmatch(list, -1) {
			c.below[m[1]] = helped(t, bin, append(slices.Clone(path), m[1])...)
		}
	}
	for _, m := range flagsOf.FindAllStringSubmatch(flags, -1) {
		c.flags = append(c.flags, m[2])
		if m[1] != "" {
			c.flags = append(c.flags, m[1])
		}
	}
	return c
}

// typedLine is something that a page shows to be typed.
type typedLine struct {
	line int
	text string
}

var (
	span   = regexp.MustCompile("`([^`]+)`")
	quoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	ours   = regexp.MustCompile(`(?:^|[\s(/$])(ledgerctl|runner)( [^;&>#<]*|$)`)
	word   = regexp.MustCompile(`^[a-z][\w-]*$`)
)

// shown are the code spans and blocks of a page. A block that shows what a command
// prints (text) is no command.
func shown(page string) (all []typedLine) {
	fence := ""
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line, at := lines[i], i+1
		if language, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			if fence == "" {
				fence = language + "."
			} else {
				fence = ""
			}
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
		}
		switch {
		case fence == "text.":
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, typedLine{at, typed})
			}
		case fence != "", strings.HasPrefix(line, "    "):
			all = append(all, typedLine{at, line})
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				all = append(all, typedLine{at, m[1]})
			}
		}
	}
	return all
}

// wrong says what cannot be typed in a text, of the commands that there are.
func wrong(binaries map[string]*command, text string) (faults []string) {
	text, _, _ = strings.Cut(quoted.ReplaceAllString(text, "QUOTED"), " # ") // a comment
	for part := range strings.SplitSeq(text, " | ") {
		for _, m := range ours.FindAllStringSubmatch(part, -1) {
			faults = append(faults, wrongIn(binaries[m[1]], m[1], strings.Fields(m[2]))...)
		}
	}
	return faults
}

func wrongIn(c *command, path string, words []string) (faults []string) {
	for i, w := range words {
		w = strings.TrimRight(w, ",.:)…")
		switch alternatives := strings.Split(strings.Trim(w, "[]"), "|"); {
		case strings.HasPrefix(w, "-") && len(w) > 1 || strings.HasPrefix(w, "[-"):
			for _, a := range alternatives {
				name, _, _ := strings.Cut(a, "=")
				if strings.HasPrefix(name, "-") && !slices.Contains(c.flags, name) {
					faults = append(faults, path+" has no flag "+name)
				}
			}
		case len(c.below) > 0 && word.MatchString(alternatives[0]):
			for _, a := range alternatives {
				next, ok := c.below[a]
				if !ok {
					return append(faults, path+" has no command "+a)
				}
				faults = append(faults, wrongIn(next, path+" "+a, words[i+1:])...)
			}
			return faults
		}
	}
	return faults
}

// TestPagesShowCommandsThatThereAre: each ledgerctl and runner in a code span or
// block of any page has the command and the flags that are shown.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	binaries := map[string]*command{}
	for _, name := range []string{"ledgerctl", "runner"} {
		binaries[name] = helped(t, testenv.Build(t, "cmd/"+name))
	}
	for text, want := range map[string]string{
		"ledgerctl runs list --state parked,cancelling":         "",
		"ledgerctl runs lits":                                   "ledgerctl runs has no command lits",
		"ledgerctl why RUN --verbose":                           "ledgerctl why has no flag --verbose",
		"go run ./cmd/runner demo --recovery=opaque":            "",
		"runner worker|dev|projector --health :8080":            "",
		"runner worker|dev|projetor --health :8080":             "runner has no command projetor",
		"ledgerctl exprot -o csv":                               "ledgerctl has no command exprot",
		"runner worker --prices FILE   # ledgerctl too":         "",
		`ledgerctl cancel RUN --reason "--force it" | wc --all`: "",
	} {
		if got := strings.Join(wrong(binaries, text), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../examples/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range append(append(pages, "../README.md", "../CONTRIBUTING.md"), more...) {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range shown(string(page)) {
			if ours.MatchString(l.text) {
				lines++
			}
			for _, f := range wrong(binaries, l.text) {
				t.Errorf("%s:%d: %s\n\t%s", file, l.line, f, l.text)
			}
		}
	}
	if lines < 200 {
		t.Errorf("%d commands in all pages: the test does not understand them any more", lines)
	}
}
