package prompt_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents/prompt"
)

func layer(id string, s prompt.Source, m prompt.Mode, text string) prompt.Layer {
	return prompt.Layer{ID: id, Source: s, Mode: m, Text: text}
}

func TestCompose(t *testing.T) {
	type layers = []prompt.Layer
	tests := []struct {
		name   string
		base   string
		layers layers
		want   string
		off    []string // "layer by layer"
	}{
		{"PR-59 base first, joined by a blank line", "A", layers{layer("b", prompt.User, "append", "B"), layer("c", prompt.App, "append", "C")}, "A\n\nB\n\nC", nil},
		{"PR-59 nothing at all", "", nil, "", nil},
		{"PR-59 no base", " \n", layers{layer("b", prompt.User, "", "B")}, "B", nil},
		{"PR-59 an empty layer leaves no gap, nor does white space around one", "A\n", layers{layer("b", prompt.User, "", " \n"), layer("c", prompt.User, "", "\n\nC\n")}, "A\n\nC", nil},
		{"PR-60 sources have an order", "0", layers{
			layer("6", prompt.Run, "", "6"), layer("5", prompt.Host, "", "5"), layer("4", prompt.App, "", "4"),
			layer("3", "zebra", "", "3"), layer("2", prompt.Package, "", "2"), layer("1", prompt.User, "", "1"),
		}, "0\n\n1\n\n2\n\n3\n\n4\n\n5\n\n6", nil},
		{"PR-60 unknown sources stay in the order of the input", "", layers{layer("z", "zebra", "", "z"), layer("a", "ant", "", "a"), layer("z2", "zebra", "", "z2")}, "z\n\na\n\nz2", nil},
		{"PR-61 the user's is the lowest, below a package", "", layers{layer("p", prompt.Package, "replace", "P"), layer("u", prompt.User, "", "U")}, "P", []string{"u by p"}},
		{"PR-61 an unknown source cannot wipe the run's prompt, nor the app's", "A", layers{
			layer("r", prompt.Run, "", "R"), layer("x", "custom", "replace", "X"), layer("c", prompt.App, "", "C"), layer("y", "custom", "disable", ""),
		}, "C\n\nR", []string{"base by x", "x by y"}},
		{"PR-62 one source keeps its order", "", layers{layer("3", prompt.App, "", "3"), layer("1", prompt.App, "", "1"), layer("2", prompt.App, "", "2")}, "3\n\n1\n\n2", nil},
		{"PR-63 replace takes all that is below, the base too", "A", layers{layer("b", prompt.User, "", "B"), layer("c", prompt.App, "replace", "C"), layer("d", prompt.Run, "", "D")}, "C\n\nD", []string{"base by c", "b by c"}},
		{"PR-63 replace without text empties", "A", layers{layer("c", prompt.App, "replace", "")}, "", []string{"base by c"}},
		{"PR-63 disable takes the layers below and leaves the base", "A", layers{layer("b", prompt.User, "", "B"), layer("c", prompt.App, "disable", ""), layer("d", prompt.Run, "", "D")}, "A\n\nD", []string{"b by c"}},
		{"PR-63 of two the first that took it out is named", "A", layers{layer("c", prompt.App, "replace", "C"), layer("d", prompt.Run, "replace", "D")}, "D", []string{"base by c", "c by d"}},
		{"PR-91 the run's prompt comes last and wins", "A", layers{layer("r", prompt.Run, "replace", "R"), layer("h", prompt.Host, "replace", "H")}, "R", []string{"base by h", "h by r"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := slices.Clone(tt.layers)
			p, err := prompt.Compose(tt.base, in...)
			if err != nil || p.Text != tt.want {
				t.Errorf("%q %v, want %q", p.Text, err, tt.want)
			}
			var off []string
			for _, part := range p.Parts {
				if part.Off != "" {
					off = append(off, part.ID+" by "+part.Off)
				}
				if part.Digest != sha256.Sum256([]byte(strings.TrimSpace(part.Text))) {
					t.Errorf("digest of %q is not that of its text", part.ID)
				}
			}
			if d := cmp.Diff(tt.off, off); d != "" {
				t.Errorf("off (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.layers, in); d != "" {
				t.Errorf("the caller's layers were changed:\n%s", d)
			}
		})
	}
}

// PR-64: the configured layers can be off for a run; the base stays.
func TestConfigured(t *testing.T) {
	all := []prompt.Layer{layer("u", prompt.User, "", "U"), layer("a", prompt.App, "replace", "C"), layer("h", prompt.Host, "", "H")}
	for off, want := range map[bool]string{false: "C\n\nH", true: "A"} {
		if p, err := prompt.Compose("A", prompt.Configured(all, off)...); err != nil || p.Text != want {
			t.Errorf("off %t: %q %v, want %q", off, p.Text, err, want)
		}
	}
	if len(all) != 3 || all[0].ID != "u" {
		t.Errorf("the caller's layers were changed: %v", all)
	}
}

func TestFaults(t *testing.T) {
	big := strings.Repeat("x", prompt.MaxBytes)
	many := make([]prompt.Layer, prompt.MaxLayers+1)
	for i := range many {
		many[i] = layer(fmt.Sprint(i), prompt.App, "", "x")
	}
	tests := []struct {
		name   string
		base   string
		layers []prompt.Layer
		want   string
	}{
		{"no ID", "", []prompt.Layer{layer("", prompt.App, "", "x")}, `want as ID 1 to 128 bytes`},
		{"no source", "", []prompt.Layer{layer("a", "", "", "x")}, `want as source 1 to 128 bytes`},
		{"an ID with a line end", "", []prompt.Layer{layer("a\nb", prompt.App, "", "x")}, `"a\nb" of source "app": want as ID`},
		{"an endless ID", "", []prompt.Layer{layer(big, prompt.App, "", "x")}, `want as ID`},
		{"an unknown mode", "", []prompt.Layer{layer("a", prompt.App, "prepend", "x")}, `mode "prepend": want append, replace or disable`},
		{"a layer that disables and says something", "", []prompt.Layer{layer("a", prompt.App, "disable", "x")}, "has no text"},
		{"a layer that says it is the base", "", []prompt.Layer{layer("a", prompt.Base, "", "x")}, "the base is none"},
		{"too long a layer", "", []prompt.Layer{layer("a", prompt.App, "", big+"x")}, "it has 262145 bytes, at most 262144"},
		{"too long a base", big + "x", nil, "the base: it has 262145 bytes"},
		{"too long together", big, []prompt.Layer{layer("a", prompt.App, "", "x")}, "all together have 262147 bytes, at most 262144"},
		{"too many", "", many, "there are 65, at most 64"},
		{"not UTF-8", "", []prompt.Layer{layer("a", prompt.App, "", "\xff")}, "not UTF-8"},
		{"a NUL", "a\x00b", nil, "the base: there is a NUL byte"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := prompt.Compose(tt.base, tt.layers...)
			if !errors.Is(err, prompt.ErrLayer) || !strings.Contains(err.Error(), tt.want) || p.Text != "" || len(err.Error()) > 1000 {
				t.Errorf("%q, %v; want %q", p.Text, err, tt.want)
			}
		})
	}
	_, err := prompt.Compose("", layer("a", prompt.App, "x", ""), layer("b", prompt.App, "y", ""))
	if err == nil || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("all faults at once: %v", err)
	}
	if _, err := prompt.Compose(big, layer("a", prompt.App, "replace", big)); err != nil {
		t.Errorf("what is out does not count: %v", err)
	}
}

func TestText(t *testing.T) {
	tests := []struct{ name, in, want, fault string }{
		{"plain", "a\nb", "a\nb", ""},
		{"a byte order mark", "\ufeffa", "a", ""},
		{"windows line ends", "a\r\nb\r\n", "a\nb\n", ""},
		{"old line ends", "a\rb", "a\nb", ""},
		{"empty", "", "", ""},
		{"the mark of a replaced character is text", "\ufffd", "\ufffd", ""},
		{"UTF-16", "\xff\xfea\x00", "", "UTF-16"},
		{"UTF-16, the other way", "\xfe\xff\x00a", "", "UTF-16"},
		{"latin 1", "a\nb\xe9", "", "line 2: it is not UTF-8"},
		{"cut in a character", "a\n\n\xc3", "", "line 3: it is not UTF-8"},
		{"a NUL", "a\n\x00", "", "line 2: there is a NUL byte"},
		{"too long", strings.Repeat("x", prompt.MaxBytes+1), "", "over 262144 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := prompt.Text([]byte(tt.in))
			if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q %v, want %q %q", got, err, tt.want, tt.fault)
			}
		})
	}
}

// PR-65, PR-66, PR-68: the composer can't read, find, watch or call anything: it
// imports nothing that could.
func TestComposerIsPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	pure := []string{
		"bytes", "cmp", "crypto/sha256", "errors", "fmt", "slices", "strings", "unicode/utf8",
		"github.com/daybookhq/daybook/events",
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range syntax.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err != nil || !slices.Contains(pure, path) {
				t.Errorf("%s imports %s (%v)", f, path, err)
			}
		}
	}
}

func ExampleCompose() {
	p, err := prompt.Compose("You decide about refunds.",
		prompt.Layer{ID: "agents-md", Source: prompt.App, Text: "Amounts are in euros."},
		prompt.Layer{ID: "system-md", Source: prompt.User, Text: "Answer in German."})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Text)
	// Output:
	// You decide about refunds.
	//
	// Answer in German.
	//
	// Amounts are in euros.
}
