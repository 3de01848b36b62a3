package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
)

// calls writes what calls did, one call after the other: of those that ran
// beside each other the record has the parts mixed.
func (o *transcriptText) calls(s *telling.Section, vs []*telling.ToldView) {
	var order []string
	of := map[string][]*telling.ToldView{}
	for _, v := range vs {
		if of[v.Call] == nil {
			order = append(order, v.Call)
		}
		of[v.Call] = append(of[v.Call], v)
	}
	slices.SortStableFunc(order, func(x, y string) int { // as the model asked
		_, a, _ := splitCall("/" + x)
		_, b, _ := splitCall("/" + y)
		return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	for _, id := range order {
		for i, v := range of[id] {
			if i == 0 || v.Kind == telling.ToldCall {
				o.callHead(s, v)
			}
			o.ofCall(v)
		}
	}
}

func (o *transcriptText) callHead(s *telling.Section, v *telling.ToldView) {
	var args json.RawMessage
	extra := ""
	switch {
	case v.Kind == telling.ToldCall:
		args = v.Data
		if v.Attempt > 1 {
			extra = fmt.Sprintf("attempt %d", v.Attempt)
		}
		extra = either(", ", when(v.Effect == "destructive", v.Effect), extra, v.Status)
	case v.Status == "blocked":
		args = v.Data
	case v.Status == "repeated" || v.Status == "simulated": // nothing was started
		for i, c := range s.Asked {
			if v.Call == (events.CallID{Turn: s.Turn, Index: i}).String() {
				args = c.Arguments
			}
		}
	}
	o.callLine(v.Call, v.Tool, extra, args)
}

func (o *transcriptText) callLine(id, tool, extra string, args json.RawMessage) {
	name := clean(tool)
	indent := len(inset) + len(id) + len(gap)
	head := inset + o.paint(id, dim) + gap + o.paint(name, bold) + with("  ", o.paint(extra, dim))
	width := indent + utf8.RuneCountInString(name) + 1
	if extra != "" {
		width += 2 + utf8.RuneCountInString(extra)
	}
	lines := o.cutLines(spaced(string(args)), o.room(indent), fewLines)
	if len(lines) == 0 {
		o.line("", head)
		return
	}
	if len(lines) == 1 && (o.a.term.width == 0 || width+utf8.RuneCountInString(lines[0]) <= o.room(0)) {
		o.line("", head+" "+lines[0])
		return
	}
	o.line("", head)
	for _, l := range lines {
		o.line(strings.Repeat(" ", indent), l)
	}
}

func (o *transcriptText) ofCall(v *telling.ToldView) {
	switch v.Kind {
	case telling.ToldProgress:
		o.outcome(len(v.Call), "·", "", v.Text, "", dim)
	case telling.ToldDoubt:
		o.outcome(len(v.Call), "?", v.Label, v.Text, "", painted(v.Tone))
	case telling.ToldResult:
		sign := "→"
		switch v.Status {
		case "error", "blocked", "failed":
			sign = "×"
		case "repeated":
			sign = "="
		}
		m := ""
		if v.Cost != nil {
			m = v.Cost.String() + " USD"
		}
		if len(o.shortLines(v.Text, o.room(0))) == len(visible(v.Text, o.room(0))) {
			o.said = v.Text
		}
		if v.LatencyMS != nil && *v.LatencyMS > 0 {
			m = either(" · ", m, latency(v.LatencyMS))
		}
		o.outcome(len(v.Call), sign, v.Label, v.Text, m, painted(v.Tone))
	}
}

// outcome writes a sign, what happened in a few words, and what was said.
func (o *transcriptText) outcome(id int, sign, label, text, meta string, st style) {
	indent := strings.Repeat(" ", len(inset)+id+len(gap))
	room := o.room(len(indent) + 2)
	lines := o.shortLines(spaced(text), room)
	if label != "" {
		switch {
		case len(lines) == 0:
			lines = wrap(clean(label), room)
		case len(lines) == 1 && (room == 0 || utf8.RuneCountInString(label+lines[0])+2 <= room):
			lines[0] = clean(label) + ": " + lines[0]
		default:
			lines = append(wrap(clean(label)+":", room), lines...)
		}
	}
	if len(lines) == 0 {
		lines = []string{"(nothing)"}
	}
	below := meta
	for i, l := range lines {
		before, tail := "  ", ""
		if i == 0 {
			before = sign + " "
			pad := room - utf8.RuneCountInString(l) - utf8.RuneCountInString(meta)
			switch {
			case meta == "":
			case room == 0:
				tail, below = "  ("+meta+")", ""
			case pad >= 2:
				tail, below = strings.Repeat(" ", pad)+meta, ""
			}
		}
		o.line(indent, o.paint(before+l, st)+o.paint(tail, dim))
	}
	if below != "" {
		o.line(strings.Repeat(" ", max(o.room(0)-utf8.RuneCountInString(below), 0)), o.paint(below, dim))
	}
}
