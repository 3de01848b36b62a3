package mcp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// Hints tighten and never loosen, for every combination of what is said.
func TestHintsOnlyTighten(t *testing.T) {
	said := []*bool{nil, new(false), new(true)}
	for _, effect := range []tools.Effect{"", tools.Readonly, tools.Idempotent, tools.Destructive} {
		for _, trust := range []tools.Trust{"", tools.Own, tools.External} {
			for _, readonly := range said {
				for _, destructive := range said {
					for _, idempotent := range said {
						for _, open := range said {
							a := &annotations{ReadOnly: readonly, Destructive: destructive, Idempotent: idempotent, OpenWorld: open}
							e, tr, what := tighten(Tool{Effect: effect, Trust: trust}, a)
							if strictness(e) < strictness(effect) || trust != tools.Own && tr != trust || trust == tools.Own && tr == "" {
								t.Errorf("%q %q with %s became %q %q", effect, trust, must(a), e, tr)
							}
							if (what == "") != (e == effect && tr == trust) {
								t.Errorf("%q %q with %s became %q %q, and it is said: %q", effect, trust, must(a), e, tr, what)
							}
						}
					}
				}
			}
		}
	}
}

func must(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func TestHints(t *testing.T) {
	tests := []struct {
		name, hints string
		declared    tools.Effect
		want        tools.Effect
	}{
		{"none", `null`, tools.Readonly, tools.Readonly},
		{"only a title", `{"title":"x"}`, tools.Readonly, tools.Readonly},
		{"readonly", `{"readOnlyHint":true}`, "", ""},
		{"readonly and destructive", `{"readOnlyHint":true,"destructiveHint":true}`, tools.Readonly, tools.Readonly},
		{"not readonly", `{"readOnlyHint":false}`, tools.Readonly, tools.Destructive},
		{"writes the same again", `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`, tools.Readonly, tools.Idempotent},
		{"adds", `{"destructiveHint":false}`, tools.Idempotent, tools.Destructive},
		{"idempotent", `{"idempotentHint":true}`, tools.Destructive, tools.Destructive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a *annotations
			if err := json.Unmarshal([]byte(tt.hints), &a); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := tighten(Tool{Effect: tt.declared}, a); got != tt.want {
				t.Errorf("%q with %s is %q, want %q", tt.declared, tt.hints, got, tt.want)
			}
		})
	}
}

func TestBaseNames(t *testing.T) {
	s := newServer(&Config{}, Server{Name: "a", Tools: map[string]Tool{"x": {As: "y"}}})
	for own, want := range map[string]string{
		"read": "read", "get-sum": "get_sum", "a.b/c": "a_b_c", "a__b": "a_b", "a--_-b": "a_b", "_x_": "x", "7up": "t7up",
		"grüße": "gr_e", "": "t", "___": "t", "x": "y",
	} {
		if got := s.baseName(own); got != want {
			t.Errorf("%q is called %q, want %q", own, got, want)
		}
	}
}

// Lists that cost more in memory than as text are counted first.
func TestListsAreCountedFirst(t *testing.T) {
	for name, raw := range map[string]string{
		"blocks": `{"content":[` + strings.Repeat("{},", 2_000_000) + `{}]}`,
		"nested": `{"content":[` + strings.Repeat(`{"a":[1,2,"],\\"]},`, 1_000) + `{}]}`,
	} {
		_, err := readReply(json.RawMessage(raw))
		if err == nil || !strings.Contains(err.Error(), "elements, at most 1000") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var page struct{ Tools few[*declaration] }
	if err := json.Unmarshal([]byte(`{"tools":[`+strings.Repeat("{},", maxElements)+`{}]}`), &page); err == nil {
		t.Error("too many tools were read")
	}
	for raw, want := range map[string]int{`[1]`: 1, `[1,[2,3],{"a":4,"b":5}]`: 3, `["a,b","c\",d",[]]`: 3} {
		if n := elements([]byte(raw)); n != want {
			t.Errorf("%s has %d elements, want %d", raw, n, want)
		}
	}
}

// A schema goes to models as it is: one with a secret in it is refused.
func TestSchemasTellNoSecrets(t *testing.T) {
	const canary = "canary-7f3Kq9Zx2Lm"
	r := redact.New(redact.Config{})
	if err := redact.NewVault(r).Set("key", canary); err != nil {
		t.Fatal(err)
	}
	s := newServer(&Config{Redactor: r}, Server{Name: "a"})
	for name, schema := range map[string]string{
		"description": `{"type":"object","properties":{"x":{"type":"string","description":"the key is CANARY"}}}`,
		"default":     `{"type":"object","properties":{"x":{"type":"string","default":"CANARY"}}}`,
		"enum":        `{"type":"object","properties":{"x":{"enum":["a","CANARY"]}}}`,
		"name":        `{"type":"object","properties":{"x-CANARY":{"type":"string"}}}`,
		"encoded":     `{"type":"object","title":"` + base64.StdEncoding.EncodeToString([]byte(canary)) + `"}`,
	} {
		_, err := s.tool("x", declaration{Name: "x", InputSchema: json.RawMessage(strings.ReplaceAll(schema, "CANARY", canary))})
		if err == nil || !strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.tool("x", declaration{Name: canary}); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("in its name: %v", err)
	}
	harmless := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["password","token"],"properties":{"password":{"type":"string","description":"the password, min. 8 letters"},"token":{"type":"string"},"api_key":{"type":["string","null"],"default":null,"minLength":1},"n":{"type":"number","default":1.50}}}`
	if _, err := s.tool("x", declaration{Name: "x", InputSchema: json.RawMessage(harmless)}); err != nil {
		t.Errorf("that only speaks of secrets: %v", err)
	}
}

// FuzzReply: whatever a server answers, it is read or refused.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}`, `{"content":[{"type":"resource"}]}`, `{"content":null}`,
		`{"content":[{"type":"image","data":"===="}],"isError":true}`, `[]`, `null`, `{"structuredContent":"x","content":[{"type":"text","text":"\"x\""}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readReply(raw)
		if err != nil {
			return
		}
		text, links := r.text()
		if !utf8.ValidString(text) && utf8.Valid(raw) {
			t.Errorf("%q is no UTF-8", text)
		}
		if len(links) > len(r.Content) || strings.Contains(text, "%!") && !strings.Contains(string(raw), "%") {
			t.Errorf("%q with %d links", text, len(links))
		}
	})
}
