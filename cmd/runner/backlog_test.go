package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/examples/refunds"
)

func TestReadBacklog(t *testing.T) {
	const header = "id,name,note\n"
	tests := []struct {
		name string
		text string
		rows []string // line id|name|note
		bad  []string
	}{
		{"header only", header, nil, nil},
		{"plain", header + "1,Ann,hi\n2,Bob,\n", []string{"2 1|Ann|hi", "3 2|Bob|"}, nil},
		{"no newline at the end", header + "1,Ann,hi", []string{"2 1|Ann|hi"}, nil},
		{"byte order mark", "\ufeff" + header + "1,Ann,hi\n", []string{"2 1|Ann|hi"}, nil},
		{"windows line ends", "id,name,note\r\n1,Ann,hi\r\n", []string{"2 1|Ann|hi"}, nil},
		{"empty lines", header + "\n1,Ann,hi\n\n2,Bob,x\n", []string{"3 1|Ann|hi", "5 2|Bob|x"}, nil},
		{"two lines in one field", header + "1,Ann,\"a\nb\"\n2,Bob,x\n", []string{"2 1|Ann|a\nb", "4 2|Bob|x"}, nil},
		{
			"too few fields", header + "1,Ann\n2,Bob,x\n",
			[]string{"3 2|Bob|x"},
			[]string{"f.csv:2: 2 fields, the header names 3: note missing: add it, if only as a comma"},
		},
		{
			"too many fields", header + "1,Ann,a,b\n2,Bob,x\n",
			[]string{"3 2|Bob|x"},
			[]string{"f.csv:2: 4 fields, the header names 3: put quotes around a field that contains a comma"},
		},
		{
			"too few fields over two lines", header + "1,\"A\nnn\"\n2,Bob,x\n",
			[]string{"4 2|Bob|x"},
			[]string{"f.csv:2: 2 fields, the header names 3: note missing: add it, if only as a comma"},
		},
		{
			"bare quote", header + "1,Eve \"Evie\" Stone,x\n2,Bob,x\n",
			[]string{"3 2|Bob|x"},
			[]string{`f.csv:2: field 2 (name): a quote inside a field that is not quoted: put quotes around the field and double those inside: "Eve ""Evie"" Stone"`},
		},
		{
			"text after a quoted field", header + "1,\"Ann\" B,x\n2,Bob,x\n",
			[]string{"3 2|Bob|x"},
			[]string{`f.csv:2: field 2 (name): a quoted field does not end before a comma or the end of the line: close it, and double the quotes inside: "so ""called"""`},
		},
		{
			"a quote that is never closed", header + "1,Ann,\"open\n2,Bob,x\n3,Cid,y\n",
			[]string{"3 2|Bob|x", "4 3|Cid|y"},
			[]string{`f.csv:2: field 3 (note): a quoted field does not end before a comma or the end of the line: close it, and double the quotes inside: "so ""called"""`},
		},
		{
			"a quote that a later row closes", header + "1,Ann,\"open\n2,Bob,x\n3,\"Cid\",y\n4,\"Dee\nDee\",z\n",
			[]string{"3 2|Bob|x", "4 3|Cid|y", "5 4|Dee\nDee|z"},
			[]string{`f.csv:2: field 3 (note): a quoted field does not end before a comma or the end of the line: close it, and double the quotes inside: "so ""called"""`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, bad, err := readBacklog("f.csv", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got, faults []string
			for _, r := range rows {
				got = append(got, strings.Join([]string{digits(r.Line) + " " + r.Fields["id"], r.Fields["name"], r.Fields["note"]}, "|"))
			}
			for _, b := range bad {
				faults = append(faults, b.Error)
			}
			if d := cmp.Diff(tt.rows, got); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.bad, faults); d != "" {
				t.Errorf("rejected (-want +got):\n%s", d)
			}
		})
	}
}

func digits(n int) string { return string(rune('0' + n)) }

func TestReadBacklogHeader(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty file", "", "f.csv:1: the file is empty: write the names of the columns, such as request,order_id,amount"},
		{"only a mark", "\ufeff", "f.csv:1: the file is empty: write the names of the columns, such as request,order_id,amount"},
		{"a column without a name", "a,,c\n", "f.csv:1: column 2 has no name: write the names of the columns, such as request,order_id,amount"},
		{"a name twice", "a,b, a\n", `f.csv:1: two columns are named "a": rename one`},
		{"a bare quote", "a,b\"c\n", `f.csv:1: read the header: parse error on line 1, column 4: bare " in non-quoted-field: write the names of the columns, such as request,order_id,amount`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := readBacklog("f.csv", []byte(tt.text))
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\nwant    %s", err, tt.want)
			}
		})
	}
}

// The key of a run is the file's content and the line: the same file sent again
// is the same runs, a changed one is not.
func TestBacklogKeys(t *testing.T) {
	b, err := refunds.Files.ReadFile("requests.csv")
	if err != nil {
		t.Fatal(err)
	}
	first, bad, err := readBacklog("a", b)
	if err != nil || len(first) != 26 || len(bad) != 2 {
		t.Fatalf("%d rows, %d rejected, %v", len(first), len(bad), err)
	}
	again, _, _ := readBacklog("b", b)
	changed, _, _ := readBacklog("a", append(b, '\n'))
	seen := map[string]bool{}
	for i, r := range first {
		if r.Key != again[i].Key || r.Key == changed[i].Key || seen[r.Key] {
			t.Errorf("line %d: keys %s, %s again, %s changed", r.Line, r.Key, again[i].Key, changed[i].Key)
		}
		seen[r.Key] = true
	}
}
