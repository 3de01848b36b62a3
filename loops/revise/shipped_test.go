package revise_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
)

// PR-02: a text becomes a value, or a reason why it does not.
func TestParsers(t *testing.T) {
	if v, err := revise.Text(t.Context(), revise.Context{}, " a\n"); v != " a\n" || err != nil { // PR-06
		t.Errorf("text: %q, %v", v, err)
	}
	for in, want := range map[string]string{
		`{"a":9007199254740993}`:           `{"a":9007199254740993}`,
		"```json\n[1]\n```\n":              `[1]`,
		"```\n\"x\"\n```":                  `"x"`,
		"  null ":                          `null`,
		"":                                 "error: the answer is empty",
		"Here it is: {}":                   "error: the answer is not JSON",
		`{"a":1} and more`:                 "error: the answer goes on after the JSON value, from byte 7 on",
		"```json\n[1]\n```\n\n```\n2\n```": "error: the answer is not JSON",
		"```":                              "error: the answer is not JSON",
		// What is stored would not be what was judged.
		`{"a":1,"a":2}`:                       `error: the answer can be read in more than one way: canonical json: jsontext: duplicate object member name "a"`,
		`{"b":[{"a":1,"a":2}]}`:               "error: the answer can be read in more than one way",
		`{"a":1,"\u0061":2}`:                  "error: the answer can be read in more than one way",
		"\"\xff\"":                            "error: the answer can be read in more than one way",
		`{"a":1e400}`:                         "error: the number 1e400 is too large",
		`[[-1e99999999999]]`:                  "error: the number -1e99999999999 is too large",
		`[1e-400]`:                            "error: the number 1e-400 is too large",
		`0.12345678901234567890`:              "error: the number 0.12345678901234567890 is too large or too exact",
		`[1.` + strings.Repeat("3", 90) + `]`: "error: the number 1." + strings.Repeat("3", 38) + "… is too large",
		`1` + strings.Repeat("0", 400):        `1` + strings.Repeat("0", 400),
		`[1.50,1E2,-0.0,0e99999999999,0.1,-12.5e-3,100e-2,1e23]`: `[1.50,1E2,-0.0,0e99999999999,0.1,-12.5e-3,100e-2,1e23]`,
	} {
		v, err := revise.JSON(t.Context(), revise.Context{}, in)
		got := fmt.Sprint("error: ", err)
		if err == nil {
			b, _ := json.Marshal(v)
			got = string(b)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestSchema(t *testing.T) {
	const schema = `{"type":"object","required":["title","changes"],"additionalProperties":false,
		"properties":{"title":{"type":"string","maxLength":5},"changes":{"type":"array","items":{"type":"string"}},"n":{"const":9007199254740993}}}`
	v, err := revise.Schema([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	type notes struct {
		Title   string   `json:"title"`
		Changes []string `json:"changes"`
	}
	for name, tt := range map[string]struct {
		value any
		want  []events.ArtifactIssue
	}{
		"JSON":                        {json.RawMessage(`{"title":"a","changes":["b"],"n":9007199254740993}`), nil},
		"a big number that is not it": {json.RawMessage(`{"title":"a","changes":["b"],"n":9007199254740992}`), []events.ArtifactIssue{{Path: "/n", Message: "value must be 9007199254740993"}}},
		"a struct of the host's":      {notes{"a", []string{"b"}}, nil},
		"a map": {map[string]any{"title": "too long", "changes": []any{1, "b", nil}, "x~/y": 1}, []events.ArtifactIssue{
			{Path: "", Message: "additional properties 'x~/y' not allowed"},
			{Path: "/changes/0", Message: "got number, want string"},
			{Path: "/changes/2", Message: "got null, want string"},
			{Path: "/title", Message: "maxLength: got 8, want 5"},
		}},
		"a text is a text": {`{"title":"a"}`, []events.ArtifactIssue{{Message: "got string, want object"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // in the same order
				got, err := v(t.Context(), revise.Context{}, tt.value)
				if err != nil || got.OK != (tt.want == nil) {
					t.Fatalf("%+v, %v", got, err)
				}
				if d := cmp.Diff(tt.want, got.Issues); d != "" {
					t.Fatalf("issues (-want +got):\n%s", d)
				}
			}
		})
	}
	many := map[string]any{}
	for i := range 50 {
		many[fmt.Sprint("x", i)] = 1
	}
	each, err := revise.Schema([]byte(`{"patternProperties":{"":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := each(t.Context(), revise.Context{}, many); err != nil || len(got.Issues) != 31 || got.Issues[30].Message != "and 20 more" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := v(t.Context(), revise.Context{}, json.RawMessage(`{`)); err == nil || !strings.Contains(err.Error(), "use the parser") {
		t.Errorf("no JSON: %v", err)
	}
}

func TestSchemaFaults(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                             "read schema",
		`{"type":"objekt"}`:             "compile schema",
		`{"$ref":"file:///etc/passwd"}`: "not loaded",
		`{"$ref":"http://127.0.0.1/schema.json"}`: "not loaded",
	} {
		if _, err := revise.Schema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
}

// PR-07: what was found becomes the next message of the user.
func TestIssues(t *testing.T) {
	got, err := revise.Issues(t.Context(), revise.Context{Artifact: "notes"}, nil, revise.Refuse(events.ArtifactIssue{Path: "/a", Message: "is wrong"}, events.ArtifactIssue{Message: "too short"}))
	want := "Your answer was not accepted as notes. What is wrong with it:\n- /a: is wrong\n- too short\nAnswer with the whole of it again, corrected, and with nothing else."
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if got, _ := revise.Issues(t.Context(), revise.Context{}, nil, revise.Verdict{}); !strings.Contains(got, "no reason was given") {
		t.Errorf("%q", got)
	}
}

func TestCallbacks(t *testing.T) {
	mine := func() revise.Callbacks {
		return revise.Callbacks{Parsers: map[string]revise.Parser{"text": revise.JSON}, Validators: map[string]revise.Validator{"v": nil}}
	}
	c := mine().WithShipped()
	if v, _ := c.Parsers["text"](t.Context(), revise.Context{}, "1"); v != json.Number("1") {
		t.Errorf("the host's own parser does not win: %v", v)
	}
	got := c.Lacks(loops.Needs{Parsers: []string{"json", "xml"}, Validators: []string{"v", "w"}, Repairers: []string{"issues"}})
	if d := cmp.Diff([]string{`parser "xml"`, `validator "w"`}, got); d != "" {
		t.Error(d)
	}
	if shipped := (revise.Callbacks{}).WithShipped(); len(shipped.Parsers) != 2 || len(shipped.Validators) != 0 || len(shipped.Repairers) != 1 {
		t.Errorf("%+v", shipped)
	}
}
