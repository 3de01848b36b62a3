//go:build unix

package command

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func mustEntry(tb testing.TB, raw string) Entry {
	tb.Helper()
	e, err := ParseEntry(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func arguments(tb testing.TB, command string) json.RawMessage {
	tb.Helper()
	b, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// admits reports whether an entry admits a command, and why not.
func admits(tb testing.TB, entry, command string) (bool, Reason) {
	tb.Helper()
	err := mustEntry(tb, entry).Rejection(arguments(tb, command))
	var r *RejectionError
	if err != nil && !errors.As(err, &r) {
		tb.Errorf("%s, %q: %v", entry, command, err)
	}
	if r == nil {
		return true, ""
	}
	return false, r.Reason
}

func TestParseEntry(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      Entry
	}{
		{"SE-68 a name", "Read", Entry{Name: "Read"}},
		{"SE-68 a specifier", "Bash(git status)", Entry{Name: "Bash", Specifier: "git status"}},
		{"SE-68 nothing in parentheses is the name alone", "Bash()", Entry{Name: "Bash"}},
		{"SE-68 a star in parentheses is the name alone", "Bash(*)", Entry{Name: "Bash"}},
		{"SE-68 parentheses are escaped", `Bash(echo '\(a\)')`, Entry{Name: "Bash", Specifier: "echo '(a)'"}},
		{"SE-68 a name stays as it was written", "bASH(ls)", Entry{Name: "bASH", Specifier: "ls"}},
		{"SE-68 an old name is not mapped", "Shell", Entry{Name: "Shell"}},
		{"SE-69 a space is not the name alone", "Bash( )", Entry{Name: "Bash", Specifier: " "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Raw = tt.raw
			if e, err := ParseEntry(tt.raw); err != nil || e != tt.want {
				t.Errorf("%+v, %v, want %+v", e, err, tt.want)
			}
		})
	}
	for _, raw := range []string{"", "(ls)", "Bash(ls", "Bash(ls) ", "Bash(ls)x", "Bash(a(b)c)", "Bash(a)b)", `Bash(ls\)`, " Bash(ls)", "a b"} {
		t.Run("SE-69 an entry that cannot be read allows nothing: "+raw, func(t *testing.T) {
			if e, err := ParseEntry(raw); err == nil || e != (Entry{}) {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

func TestSpecifiers(t *testing.T) {
	for _, tt := range []struct {
		row, entry, command string
		want                bool
	}{
		{"SE-69 without a specifier all is covered", "Bash", "git status && ls", true},
		{"SE-69 a space covers nothing", "Bash( )", "ls", false},
		{"SE-69 two forms at once cover nothing", "Bash(git *:*)", "git status", false},
		{"SE-69 an empty prefix covers nothing", "Bash(:*)", "git status", false},
		{"SE-70 the program alone", "Bash(git:*)", "git", true},
		{"SE-70 the program and more", "Bash(git:*)", "git status", true},
		{"SE-70 not a longer name", "Bash(git:*)", "gitk", false},
		{"SE-70 not a longer name with a dash", "Bash(git:*)", "git-lfs", false},
		{"SE-70 two words", "Bash(git diff:*)", "git diff --stat", true},
		{"SE-70 two words, the second longer", "Bash(git diff:*)", "git difftool", false},
		{"SE-71 anything after", "Bash(git *)", "git status", true},
		{"SE-71 the pattern is for the whole", "Bash(git *)", "git", false},
		{"SE-71 it is anchored in front", "Bash(it *)", "git status", false},
		{"SE-71 it is anchored at the end", "Bash(git * HEAD)", "git show HEAD x", false},
		{"SE-71 in the middle", "Bash(git * HEAD)", "git show HEAD", true},
		{"SE-71 pieces do not overlap", "Bash(echo ab*ba)", "echo aba", false},
		{"SE-71 an escaped star is no pattern", `Bash(echo '\*')`, "echo 'x'", false},
		{"SE-72 equal", "Bash(git status)", "git status", true},
		{"SE-72 longer", "Bash(git status)", "git status -s", false},
		{"SE-72 an escaped star", `Bash(echo '\*')`, "echo '*'", true},
		{"SE-73 runs in the command", "Bash(git status)", "git \t  status", true},
		{"SE-73 runs in the specifier", "Bash(git \t status)", "git status", true},
		{"SE-73 around the command", "Bash(git status)", "  git status\t", true},
		{"SE-73 case counts", "Bash(git status)", "Git status", false},
		{"SE-73 spaces in quotes are no runs", "Bash(echo 'a b')", "echo 'a  b'", false},
	} {
		t.Run(tt.row, func(t *testing.T) {
			if got, reason := admits(t, tt.entry, tt.command); got != tt.want || !got && reason != Uncovered {
				t.Errorf("%s admits %q: %v %s, want %v", tt.entry, tt.command, got, reason, tt.want)
			}
		})
	}
	t.Run("SE-71 a pattern takes linear time", func(t *testing.T) {
		// With a search that goes back, these stars would take longer than the universe has.
		if ok, _ := admits(t, "Bash(echo "+strings.Repeat("a*", 1000)+"b)", "echo "+strings.Repeat("a", 4000)); ok {
			t.Error("it is admitted")
		}
	})
}

func TestFloor(t *testing.T) {
	for _, command := range []string{
		"git status && rm -rf /", "git status; ls", "git status | cat", "git $(ls)", "git `ls`", "git status > x", "git < x", "git status &",
		"/usr/bin/git status", "./git status", "A=1 git status", "'git' status", `"git" status`, "{git,x}", "gi* status", "gi? x", "[g]it", "git status\nls",
	} {
		for _, entry := range []string{"Bash(git:*)", "Bash(git *)", "Bash(**)", "Bash(" + strings.ReplaceAll(strings.ReplaceAll(command, "(", `\(`), ")", `\)`) + ")"} {
			t.Run("SE-74 "+command+" by "+entry, func(t *testing.T) {
				if ok, reason := admits(t, entry, command); ok || reason != Unsafe {
					t.Errorf("%v %s", ok, reason)
				}
			})
		}
	}
}

func TestRejection(t *testing.T) {
	for _, tt := range []struct {
		row, entry, args string
		want             Reason
	}{
		{"SE-76 a path is not enforced", "Read(src/**)", `{"command":"ls"}`, Unenforced},
		{"SE-77 so it never admits", "Read(src/**)", `{"path":"src/a"}`, Unenforced},
		{"SE-77 names are compared exactly", "bash(ls)", `{"command":"ls"}`, Unenforced},
		{"SE-78 admitted", "Bash(ls)", `{"command":"ls"}`, ""},
		{"SE-78 of ours too", "command(ls)", `{"command":"ls"}`, ""},
		{"SE-78 no command", "Bash(ls)", `{}`, Unreadable},
		{"SE-78 a number", "Bash(ls)", `{"command":1}`, Unreadable},
		{"SE-78 null", "Bash(ls)", `{"command":null}`, Unreadable},
		{"SE-78 no object", "Bash(ls)", `["ls"]`, Unreadable},
		{"SE-78 no JSON", "Bash(ls)", `{"command":"ls"`, Unreadable},
		{"SE-78 another case", "Bash(ls)", `{"Command":"ls"}`, Unreadable},
		{"SE-78 twice", "Bash(ls)", `{"command":"rm","command":"ls"}`, Unreadable},
		{"SE-78 refused by the floor", "Bash(ls:*)", `{"command":"ls; rm"}`, Unsafe},
		{"SE-78 not covered", "Bash(ls:*)", `{"command":"rm x"}`, Uncovered},
	} {
		t.Run(tt.row, func(t *testing.T) {
			err := mustEntry(t, tt.entry).Rejection(json.RawMessage(tt.args))
			var r *RejectionError
			if errors.As(err, &r); (err == nil) != (tt.want == "") || r != nil && (r.Reason != tt.want || !strings.Contains(err.Error(), tt.entry)) {
				t.Errorf("%v, want %q and the entry", err, tt.want)
			}
		})
	}
	t.Run("SE-76 the tools whose specifiers hold", func(t *testing.T) {
		for name, want := range map[string]bool{"Bash": true, Name: true, "bash": false, "Read": false, "": false} {
			if Enforced(name) != want {
				t.Errorf("%q: %v", name, !want)
			}
		}
	})
}
