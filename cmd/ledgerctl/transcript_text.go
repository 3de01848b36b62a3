package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
)

const (
	inset      = "  "
	shortLines = 8   // of a result, unless all is asked for
	shortRunes = 600 // of a result or of arguments
	fewLines   = 4   // of arguments
)

// transcriptText writes a transcript for people.
type transcriptText struct {
	a    *app
	full bool
	// gutter stands before each line of what is inherited.
	gutter string
	// said is what was said last: the result of a run is often just that.
	said string
}

func (o *transcriptText) head(v runView) error {
	t := v.Totals
	state := string(v.State)
	if w := v.WaitsFor; w != nil {
		state = fmt.Sprintf("%s: %s, since %s", state, w.Reason, stamp(w.Since))
	}
	end := ""
	if !v.EndedAt.IsZero() {
		end = "ended after " + lasting(v.EndedAt.Sub(v.CreatedAt))
	}
	fs := []field{
		{"run", v.Run.String()},
		{"state", either(", ", state, with("stopped by ", string(v.StoppedBy)), v.Declined)},
		{"agent", either(", ", v.Agent, with("for owner ", v.Owner), with("session ", v.Session), "tenant "+v.Tenant)},
		{"when", either(", ", stamp(v.CreatedAt), end)},
		{"attempt", attemptWords(v)},
	}
	if v.Place > 0 {
		fs = append(fs, field{"goes on from", either(" ", v.Continues.words(), "("+o.a.command("sessions", "show", v.Session, "--tenant", v.Tenant)+")")})
	}
	if f := v.ForkOf; f != nil {
		fs = append(fs, field{"fork of", fmt.Sprintf("%s up to event %d, effects %s", f.Run, f.Seq, f.Effects)})
	}
	if !v.Parent.IsZero() {
		fs = append(fs, field{"parent", v.Parent.String()})
	}
	o.a.fields(fs)
	if t.Events == 0 && v.Epoch == 0 {
		fmt.Fprintf(o.a.out, "\nno worker has taken the run yet\n")
	}
	return nil
}

func (o *transcriptText) inherit(p part) error {
	o.gutter = ""
	if p.run.IsZero() {
		o.blank()
		o.line("", o.paint("from here on the run's own", dim))
		return nil
	}
	o.blank()
	o.gutter = o.paint("│", dim) + " "
	o.line("", o.paint(fmt.Sprintf("inherited from run %s, up to event %d; paid for there", p.run, p.seq), dim))
	return nil
}

func (o *transcriptText) paint(s string, st style) string { return o.a.term.paint(s, st) }

func (o *transcriptText) blank() { fmt.Fprintln(o.a.out, strings.TrimRight(o.gutter, " ")) }

// line writes one line; text is clean and may be painted.
func (o *transcriptText) line(indent, text string) {
	fmt.Fprintf(o.a.out, "%s%s%s\n", o.gutter, indent, text)
}

// room is how many columns are left behind an indent; 0 = any number.
func (o *transcriptText) room(indent int) int {
	if o.a.term.width == 0 {
		return 0
	}
	if o.gutter != "" {
		indent += 2
	}
	return max(o.a.term.width-indent, 20)
}

func (o *transcriptText) section(s *telling.Section) error {
	o.blank()
	if s.Turn > 0 {
		o.heading(s)
	}
	for i := 0; i < len(s.Told); {
		v := s.Told[i]
		if !ofCall(v) {
			o.entry(v)
			i++
			continue
		}
		j := i
		for j < len(s.Told) && ofCall(s.Told[j]) {
			j++
		}
		o.calls(s, s.Told[i:j])
		i = j
	}
	o.rest(s)
	return nil
}

// rest says what a turn still waits for.
func (o *transcriptText) rest(s *telling.Section) {
	if len(s.Open) > 0 {
		o.note("no answer recorded", "", yellow)
	}
	if o.gutter != "" || s.Turn == 0 {
		return
	}
	for i, c := range s.Asked {
		if !s.Seen[i] {
			id := events.CallID{Turn: s.Turn, Index: i}.String()
			o.callLine(id, c.Name, "", c.Arguments)
			o.outcome(len(id), "·", "not begun", "", "", dim)
		}
	}
}

func (o *transcriptText) heading(s *telling.Section) {
	left := fmt.Sprintf("turn %d", s.Turn)
	if s.GoesOn {
		left += ", goes on"
	}
	models, sums := "", meta(s.Sums)
	if len(s.Sums.Models) > 0 {
		models = clean(strings.Join(s.Sums.Models, ", "))
	}
	width := o.room(0)
	if width == 0 {
		o.line("", o.paint(left, bold)+with(" · ", o.paint(either(" · ", models, sums), dim)))
		return
	}
	right, below := either(" · ", models, sums), ""
	if utf8.RuneCountInString(left+right)+5 > width {
		right, below = cut(models, width-len(left)-5), sums
	}
	fill := strings.Repeat("─", max(width-utf8.RuneCountInString(left+right)-2, 3))
	if right == "" {
		fill += "─"
	}
	o.line("", o.paint(left, bold)+" "+o.paint(either(" ", fill, right), dim))
	if below != "" {
		for _, l := range wrap(below, width) {
			o.line(strings.Repeat(" ", max(width-utf8.RuneCountInString(l), 0)), o.paint(l, dim))
		}
	}
}

// meta is what a turn came to.
func meta(s telling.SumsView) string {
	tokens := ""
	if s.ModelCalls > 0 {
		tokens = fmt.Sprintf("%d in%s · %d out", s.Input, cached(s), s.Output)
		if s.NoUsage > 0 {
			tokens = either(" · ", tokens, "usage not sent")
		}
		if s.Input+s.Output+s.CacheRead+s.CacheWrite == 0 {
			tokens = when(s.NoUsage > 0, "usage not sent")
		}
	}
	took := ""
	if s.LatencyMS > 0 {
		took = lasting(time.Duration(s.LatencyMS) * time.Millisecond)
	}
	if s.ModelCalls+s.ToolCalls == 0 {
		return ""
	}
	return either(" · ", tokens, money(s.Cost.Pico, " USD", unknowns(s)...), took)
}

func unknowns(s telling.SumsView) []unknown {
	return []unknown{{s.Unpriced, "unpriced"}, {s.Unsettled, "unsettled"}, {s.Unmeasured, "unmeasured"}}
}

func cached(s telling.SumsView) string {
	if n := s.CacheRead + s.CacheWrite; n > 0 {
		return fmt.Sprintf(" + %d cached", n)
	}
	return ""
}

func ofCall(v *telling.ToldView) bool {
	switch v.Kind {
	case telling.ToldCall, telling.ToldProgress, telling.ToldResult, telling.ToldDoubt:
		return true
	}
	return false
}

// entry writes what is not of a call.
func (o *transcriptText) entry(v *telling.ToldView) {
	switch v.Kind {
	case telling.ToldInput:
		o.line("", o.paint(v.Label, bold))
		if v.Text != "" {
			o.note(v.Text, "", dim)
		}
		o.text(inset, readable(v.Data), plain)
	case telling.ToldPrompt:
		o.prompt(v)
	case telling.ToldAnswer:
		o.answer(v)
	case telling.ToldFailure:
		o.note(v.Label, fmt.Sprintf("%s: %s (%s, %s)", v.Status, v.Text, costOf(v), latency(v.LatencyMS)), painted(v.Tone))
	case telling.ToldWait:
		o.note(waitWords(v), "", painted(v.Tone))
	case telling.ToldEnd:
		o.ending(v)
	case telling.ToldNote, telling.ToldPending, telling.ToldChild, telling.ToldApproval, telling.ToldArtifact, telling.ToldResume:
		first, below, _ := strings.Cut(v.Text, "\n")
		o.note(v.Label, first, painted(v.Tone))
		o.shortened(inset+inset, below, dim)
		if len(v.Data) > 0 && v.Kind != telling.ToldPending && string(v.Data) != "null" {
			o.shortened(inset+inset, readable(v.Data), dim)
		}
	}
}

func (o *transcriptText) prompt(v *telling.ToldView) {
	switch {
	case v.Status == "shown":
		o.note(either(", ", v.Label, plural(int64(len(v.Text)), "byte")), telling.LayerNames(v.Layers), dim)
		o.text(inset+inset, v.Text, dim)
	case v.Tone != telling.TonePlain:
		o.note(v.Label, "", painted(v.Tone))
	case !v.Prompt.IsZero():
		o.note(either(" ", v.Label, with("of ", v.Text), "(--prompt shows it)"), "", dim)
	}
}

func (o *transcriptText) answer(v *telling.ToldView) {
	if v.Label != "" { // a late one
		o.note(v.Label, fmt.Sprintf("turn %d, attempt %d, paid for and not used: %s", v.Turn, v.Attempt, costOf(v)), painted(v.Tone))
		return
	}
	if v.Reasoning != "" {
		o.note("thought", "", dim)
		o.shortened(inset+inset, v.Reasoning, dim)
	}
	if v.Text != "" {
		o.said = v.Text
		o.text(inset, v.Text, plain)
	}
	switch v.Status {
	case "end_turn", "tool_use", "":
	default:
		o.note("stopped", strings.ReplaceAll(v.Status, "_", " "), yellow)
	}
	if v.Text == "" && v.Reasoning == "" && len(v.ToolCalls) == 0 {
		o.note("an empty answer", "", dim)
	}
}

func (o *transcriptText) ending(v *telling.ToldView) {
	why := either(": ", strings.ReplaceAll(v.Status, "_", " "), with("by ", v.By), v.Text)
	lines := wrapHard(clean(why), o.room(len(inset)))
	if o.room(0) == 0 || len(v.Label)+2+utf8.RuneCountInString(why) <= o.room(0) {
		o.line("", o.paint(v.Label, bold)+with(", ", o.paint(clean(why), painted(v.Tone))))
	} else {
		o.line("", o.paint(v.Label, bold))
		for _, l := range lines {
			o.line(inset, o.paint(l, painted(v.Tone)))
		}
	}
	if out := readable(v.Data); out != "" && out != "null" && out != o.said {
		o.text(inset, out, plain)
	}
}

// note is something that is neither said nor called.
func (o *transcriptText) note(label, text string, st style) {
	all := clean(either(": ", label, text))
	for i, l := range wrap(all, o.room(len(inset)+2)) {
		before := "· "
		if i > 0 {
			before = "  "
		}
		o.line(inset, o.paint(before+l, st))
	}
}

func (o *transcriptText) text(indent, s string, st style) {
	for _, l := range visible(s, o.room(len(indent))) {
		if l == "" {
			o.blank()
			continue
		}
		o.line(indent, o.paint(l, st))
	}
}

func (o *transcriptText) shortened(indent, s string, st style) {
	for _, l := range o.shortLines(s, o.room(len(indent))) {
		o.line(indent, o.paint(l, st))
	}
}

func (o *transcriptText) end(totals *telling.ToldView, notes []string) error {
	s := *totals.Sums
	o.gutter = ""
	o.blank()
	if width := o.room(0); width > 0 {
		o.line("", o.paint(strings.Repeat("─", width), dim))
	}
	tokens := fmt.Sprintf("%d in%s, %d out", s.Input, cached(s), s.Output)
	if s.Reasoning > 0 {
		tokens += fmt.Sprintf(" (%d of them reasoning)", s.Reasoning)
	}
	if s.NoUsage > 0 {
		tokens += fmt.Sprintf("; %s without usage", plural(s.NoUsage, "answer"))
	}
	o.a.fields([]field{
		{"total", either(", ", plural(s.Turns, "turn"), plural(s.ModelCalls, "model call"), plural(s.ToolCalls, "tool call"))},
		{"tokens", tokens},
		{"models", money(s.ModelCost.Pico, " USD", unknown{s.Unpriced, "unpriced"}, unknown{s.Unsettled, "unsettled"})},
		{"tools", money(s.ToolCost.Pico, " USD", unknown{s.Unmeasured, "unmeasured"})},
		{"cost", money(s.Cost.Pico, " USD", unknowns(s)...)},
		{"took", either(", ", lasting(time.Duration(s.TookMS)*time.Millisecond), when(s.LatencyMS > 0, "the models "+lasting(time.Duration(s.LatencyMS)*time.Millisecond)))},
	})
	for _, n := range notes {
		what, command, _ := strings.Cut(n, "\n")
		for _, l := range wrap(clean(what), o.room(0)) {
			o.line("", o.paint(l, dim))
		}
		if command != "" { // in one piece, so that it can be copied
			o.line(inset, command)
		}
	}
	return nil
}

// painted is how a tone looks on a terminal.
func painted(t telling.Tone) style {
	return [...]style{telling.TonePlain: plain, telling.ToneSoft: dim, telling.ToneWarn: yellow, telling.ToneBad: red}[t]
}
