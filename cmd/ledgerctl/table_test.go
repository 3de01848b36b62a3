package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger/export"
)

func TestTableFitsTheTerminal(t *testing.T) {
	type row struct{ id, note, owner string }
	rows := []row{
		{"01KF0HKTV01S1D9JQ8GS4GHR5R", strings.Repeat("long ", 30), "u-1"},
		{"01KF0HR6FR07JF9WMKCP322HMN", "ü", "u-2"},
	}
	cols := []column[row]{
		{name: "run", keep: true, text: func(r row) string { return r.id }},
		{name: "owner", mixed: true, drop: 1, text: func(r row) string { return r.owner }},
		{name: "what", want: 12, text: func(r row) string { return r.note }},
	}
	for _, width := range []int{40, 48, 60, 100} {
		var b strings.Builder
		if err := table(&b, terminal{width: width}, rows, cols); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: line of %d: %q", width, n, line)
			}
		}
		for _, r := range rows {
			if !strings.Contains(b.String(), r.id) {
				t.Errorf("width %d: id %s was cut:\n%s", width, r.id, b.String())
			}
		}
		if has := strings.Contains(b.String(), "OWNER"); has != (width >= 48) {
			t.Errorf("width %d: owner shown is %v", width, has)
		}
	}
}

func TestTableColours(t *testing.T) {
	cols := []column[string]{{name: "state", keep: true, text: func(s string) string { return s }, style: stateStyle}}
	for _, tt := range []struct {
		name  string
		color bool
		want  string
	}{
		{"off", false, "STATE\nfailed\n"},
		{"on", true, "\x1b[1mSTATE\x1b[0m\n\x1b[31mfailed\x1b[0m\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := table(&b, terminal{width: 80, color: tt.color}, []string{"failed"}, cols); err != nil || b.String() != tt.want {
				t.Errorf("table = %q, %v; want %q", b.String(), err, tt.want)
			}
		})
	}
}

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"text stays", "refund ü 日本", "refund ü 日本"},
		{"one line", "a\nb\tc", "a b c"},
		{"no escapes", "\x1b[2Jgone", `\x1b[2Jgone`},
		{"no C1 controls", "\u009b2J", `\u009b2J`},
		{"no turned text", "a\u202eb", `a\u202eb`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := clean(tt.in); got != tt.want {
				t.Errorf("clean(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestInert(t *testing.T) {
	for in, want := range map[string]string{"=1+1": "'=1+1", "-1.5": "-1.5", "@x": "'@x", "x=1": "x=1", "": ""} {
		if got := export.Inert(in); got != want {
			t.Errorf("Inert(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"a-b/c": "a-b/c", "": "''", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestEveryEventTypeHasASummary(t *testing.T) {
	for _, typ := range events.Types() {
		v, _ := events.CurrentVersion(typ)
		p, err := events.DecodePayload(typ, v, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		silent := typ == events.TypeOf(events.RunParked{}) || typ == events.TypeOf(events.RunUnparked{}) ||
			typ == events.TypeOf(events.RunFailed{}) || typ == events.TypeOf(events.RunCancelled{}) || typ == events.TypeOf(events.SignalReceived{})
		if telling.Summary(p) == "" && !silent {
			t.Errorf("%s has no summary", typ)
		}
	}
}
