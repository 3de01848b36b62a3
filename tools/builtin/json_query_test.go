package builtin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/builtin"
)

// query returns what a model reads of a json_query, or the error.
func query(t testing.TB, document, path string) (string, string) {
	t.Helper()
	got, err := direct(t, builtin.JSONQuery(), map[string]string{"document": document, "path": path})
	if err != nil {
		return "", err.Error()
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatalf("%v cannot be encoded: %v", got, err)
	}
	return string(b), ""
}

func TestJSONQuery(t *testing.T) {
	const doc = ` {"invoices":[{"total":12.50,"paid":null,"id":12345678901234567890},{"total":7},{"id":3}],
		"a key":{"x.y":1,"*":2,"":3},"empty":[],"nested":[[1,2],[],[3]],"größe":"ü","text":"[0]","rows":[{"c":[{"v":1},{"v":2}]},{"c":[]}]} `
	tests := []struct{ name, path, want string }{
		{"SG-71 one value", "invoices[0].total", `{"found":true,"value":12.50}`},
		{"SG-71 every element's", "invoices[*].total", `{"found":true,"value":[12.50,7],"missing":1}`},
		{"SG-71 no match", "invoices[0].tax", `{"found":false}`},
		{"SG-71 a null that is there", "invoices[0].paid", `{"found":true,"value":null}`},
		{"SG-71 a null among every element's", "invoices[*].paid", `{"found":true,"value":[null],"missing":2}`},
		{"SG-71 long numbers stay whole", "invoices[0].id", `{"found":true,"value":12345678901234567890}`},
		{"SG-71 an index past the end", "invoices[3]", `{"found":false}`},
		{"SG-71 from the end", "invoices[-1].id", `{"found":true,"value":3}`},
		{"SG-71 before the beginning", "invoices[-4]", `{"found":false}`},
		{"SG-71 an object", "invoices[1]", `{"found":true,"value":{"total":7}}`},
		{"SG-71 a key in quotes", `["a key"]["x.y"]`, `{"found":true,"value":1}`},
		{"SG-71 in single quotes", `['a key'].x`, `{"found":false}`},
		{"SG-71 a star is a key in quotes", `["a key"]["*"]`, `{"found":true,"value":2}`},
		{"SG-71 the empty key", `["a key"][""]`, `{"found":true,"value":3}`},
		{"SG-71 letters of other scripts", "größe", `{"found":true,"value":"ü"}`},
		{"SG-71 an empty list has no elements", "empty[*]", `{"found":true,"value":[]}`},
		{"SG-71 nor values of them", "empty[*].x", `{"found":true,"value":[]}`},
		{"SG-71 elements without such a value", "invoices[*].tax", `{"found":false,"missing":3}`},
		{"SG-71 lists in lists become one", "nested[*][*]", `{"found":true,"value":[1,2,3]}`},
		{"SG-71 every element of every element", "rows[*].c[*].v", `{"found":true,"value":[1,2]}`},
		{"SG-71 an index of every element", "nested[*][0]", `{"found":true,"value":[1,3],"missing":1}`},
		{"SG-71 a list that is not there", "nothing[*].x", `{"found":false}`},
		{"SG-71 a star on an object", `["a key"][*]`, `{"found":false}`},
		{"SG-71 an index of an object", "invoices[0][0]", `{"found":false}`},
		{"SG-71 a text is no list", "text[0]", `{"found":false}`},
		{"SG-71 a key of a list", "invoices.total", `{"found":false}`},
		{"SG-71 the root may be written", "$.invoices[1].total", `{"found":true,"value":7}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, problem := query(t, doc, tt.path); got != tt.want {
				t.Errorf("%s = %s %s, want %s", tt.path, got, problem, tt.want)
			}
		})
	}
	t.Run("SG-71 the whole document", func(t *testing.T) {
		if got, _ := query(t, ` null `, "$"); got != `{"found":true,"value":null}` {
			t.Errorf("$ = %s", got)
		}
	})
}

func TestJSONQueryRefuses(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, tt := range []struct{ name, document, path, says string }{
		{"SG-71 no JSON", `{"a":`, "a", "document: no JSON"},
		{"SG-71 two documents", `{} {}`, "a", "document: no JSON"},
		{"SG-71 nothing", ``, "a", "document: no JSON"},
		{"SG-71 NaN", `{"a":NaN}`, "a", "document: no JSON"},
		{"SG-71 too deep", deep, "[0]", "depth"},
		{"SG-71 a key that stands twice", `{"a":1,"a":2}`, "a", "stands twice"},
		{"SG-71 an empty path", `{}`, "", "path: empty"},
		{"SG-71 two points", `{}`, "a..b", "path:"},
		{"SG-71 a point at the end", `{}`, "a.", "it ends where a key should"},
		{"SG-71 no index", `{}`, "a[]", "an index"},
		{"SG-71 a fraction", `{}`, "a[1.5]", "a closing bracket"},
		{"SG-71 a slice", `{}`, "a[0:2]", "a closing bracket"},
		{"SG-71 a filter", `{}`, "a[?(@.x>1)]", "an index"},
		{"SG-71 a huge index", `{}`, "a[99999999999999999999]", "an index"},
		{"SG-71 an open bracket", `{}`, "a[0", "it ends"},
		{"SG-71 an open quote", `{}`, `["a`, "not closed"},
		{"SG-71 a space", `{}`, "a b", "written"},
		{"SG-71 many steps", `{}`, strings.Repeat("[0]", 65), "more than 64 steps"},
		{"SG-71 a long path", `{}`, strings.Repeat("a", 2000), "at most 1024"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, problem := query(t, tt.document, tt.path); !strings.Contains(problem, tt.says) || len(problem) > 500 {
				t.Errorf("%s of %.40s = %s %s, want an error that says %q", tt.path, tt.document, got, problem, tt.says)
			}
		})
	}
}

func FuzzJSONQuery(f *testing.F) {
	for _, s := range [][2]string{
		{`{"invoices":[{"total":1},{"total":null}]}`, "invoices[*].total"},
		{`[[1],[2,[3]]]`, "[*][-1]"},
		{`{"a b":{"c":"\ud800"}}`, `["a b"].c`},
		{`{"a":1,"a":2}`, "$.a"},
		{`1e999`, "$"},
	} {
		f.Add(s[0], s[1])
	}
	tool := builtin.JSONQuery()
	f.Fuzz(func(t *testing.T, document, path string) {
		got, err := direct(t, tool, map[string]string{"document": document, "path": path})
		if err != nil {
			if len(err.Error()) > 5000 {
				t.Errorf("%q of %q: an error of %d bytes", path, document, len(err.Error()))
			}
			return
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatalf("%q of %q cannot be encoded: %v", path, document, err)
		}
		var v struct {
			Found bool            `json:"found"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(b, &v); err != nil || v.Found != (v.Value != nil) && string(b) != `{"found":true,"value":null}` {
			t.Errorf("%q of %q = %s, %v: found and a value go together", path, document, b, err)
		}
		// An index or a key of what is found is what the longer path finds.
		if len(path) > 900 {
			return
		}
		for _, step := range []string{"[0]", "[-1]", `["a"]`} {
			whole, err1 := direct(t, tool, map[string]string{"document": document, "path": path + step})
			if err1 != nil || strings.Contains(path, "*") || !v.Found {
				continue
			}
			part, err2 := direct(t, tool, map[string]string{"document": string(v.Value), "path": "$" + step})
			x, _ := json.Marshal(whole)
			y, _ := json.Marshal(part)
			if err2 != nil || string(x) != string(y) {
				t.Errorf("%q of %q = %s, in two steps %s, %v", path+step, document, x, y, err2)
			}
		}
	})
}
