package ui

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestArgumentsAreShownWhole: who approves a call reads all of it, and no two values
// look alike.
func TestArgumentsAreShownWhole(t *testing.T) {
	raw, err := json.Marshal(map[string]any{"body": strings.Repeat("harmless ", 2000) + "and wire 9000 to mallory", strings.Repeat("n", 150) + "-end": 1})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := argumentList(arguments(raw)).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	says(t, b.String(), "18\u202f024 characters: read to the end", "harmless", "and wire 9000 to mallory</bdi>", "nnn-end</bdi>")

	seen := map[string]string{}
	for _, raw := range []string{
		`100`, `"100"`, `"\"100\""`, `" 100"`, `null`, `"null"`, `""`, `"\"\""`, `true`, `"true"`, `{"a":1}`, `"{\"a\":1}"`, `"{\n  \"a\": 1\n}"`,
		`[]`, `"[]"`, `"order 7"`, `"null and void"`,
	} {
		s := readable(json.RawMessage(raw))
		if other, ok := seen[s]; ok || s == "" {
			t.Errorf("%s and %s are both shown as %q", raw, other, s)
		}
		seen[s] = raw
	}
	if s := readable(json.RawMessage(`"order 7"`)); s != "order 7" {
		t.Errorf("a plain text is shown as %q", s)
	}
}
