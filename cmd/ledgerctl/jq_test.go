package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestQuery(t *testing.T) {
	v := json.RawMessage(`{"id":9007199254740993,"huge":123456789012345678901234567890,"cost":"0.000000000001","price":12.50,"s":"a\"b","list":[1,2]}`)
	tests := []struct{ name, jq, want, wrong string }{
		{"all digits of an integer", ".id", "9007199254740993\n", ""},
		{"of a huge one, and plus one", ".huge, .huge + 1", "123456789012345678901234567890\n123456789012345678901234567891\n", ""},
		{"of a decimal", ".price", "12.50\n", ""},
		{"money stays a text, unquoted", ".cost", "0.000000000001\n", ""},
		{"texts are raw", ".s", "a\"b\n", ""},
		{"objects are one line", "{cost,id}", `{"cost":"0.000000000001","id":9007199254740993}` + "\n", ""},
		{"each result is a line", ".list[]", "1\n2\n", ""},
		{"nothing is nothing", "empty", "", ""},
		{"nothing there is null", ".nope", "null\n", ""},
		{"html is not escaped", `"<&>"`, "<&>\n", ""},
		{"halt ends it", ".id, halt, .id", "9007199254740993\n", ""},
		{"no environment", "env, $ENV", "{}\n{}\n", ""},
		{"syntax", ".list[", "", "--jq: unexpected EOF"},
		{"no such function", "fromfile", "", "--jq: function not defined: fromfile/0"},
		{"a wrong kind", ".list.x", "", "--jq: expected an object but got: array"},
		{"no files", `import "a" as a; .`, "", "--jq: "},
		{"no second input", "input", "", "--jq: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := formatted(t, v, "--jq", tt.jq)
			var usage usageError
			switch {
			case tt.wrong == "" && err != nil, tt.wrong != "" && (err == nil || !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), tt.wrong)):
				t.Fatalf("error %v, want %q", err, tt.wrong)
			case tt.wrong == "" && got != tt.want:
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, args := range [][]string{{"-o", "yaml"}, {"-o", "table"}, {"-o", "csv"}} {
		if _, err := formatted(t, v, append(args, "--jq", ".")...); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestQueryEnds: what never ends, keeps too much or writes too much is ended, and so
// is all at an interrupt.
func TestQueryEnds(t *testing.T) {
	tests := []struct {
		name, jq, want string
		set            func(*query)
	}{
		{"endless", "last(repeat(.))", "still at work after 50ms", func(q *query) { q.time = 50 * time.Millisecond }},
		{"keeps all", "[range(1e12)] | length", "keeps more than 8 MiB", func(q *query) { q.memory = 8 << 20 }},
		{"writes all", "repeat(.)", "has written over 1000 bytes", func(q *query) { q.output = 1000 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := parseQuery(tt.jq)
			if err != nil {
				t.Fatal(err)
			}
			tt.set(q)
			a := newApp(nil, io.Discard, io.Discard, time.Now)
			if err := q.write(a, json.RawMessage(`"x"`)); err == nil || !strings.Contains(err.Error(), tt.want) || exitCode(err) != exitUsage {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		q, err := parseQuery("repeat(.)")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a := newApp(nil, &cancelling{cancel: cancel}, io.Discard, time.Now)
		a.cmd = &cobra.Command{}
		a.cmd.SetContext(ctx)
		if err := q.write(a, json.RawMessage(`"x"`)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// cancelling is a writer at which somebody interrupts.
type cancelling struct{ cancel context.CancelFunc }

func (c *cancelling) Write(b []byte) (int, error) { c.cancel(); return len(b), nil }
