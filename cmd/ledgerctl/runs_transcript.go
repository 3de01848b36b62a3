package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// transcriptFlags are those of runs show that only its transcript has.
type transcriptFlags struct {
	on     bool
	prompt bool
	full   bool
}

func (f transcriptFlags) check() error {
	if !f.on && (f.prompt || f.full) {
		return usagef("--prompt and --full say how much of --transcript is shown")
	}
	return nil
}

// headView is the first line of a transcript in jsonl.
type headView struct {
	Kind string `json:"kind"` // run
	runView
}

// transcriptOut writes a transcript in one of its forms.
type transcriptOut interface {
	head(runView) error
	// inherit comes before what a fork took over, and with the zero run behind it.
	inherit(part) error
	section(*telling.Section) error
	end(totals *telling.ToldView, notes []string) error
}

// part is how much of a run another one begins with.
type part struct {
	run events.RunID
	seq uint64 // 0 = all
}

// transcript tells a run as a conversation, a turn at a time.
func (a *app) transcript(ctx context.Context, st ledger.Store, s ledger.Summary, f transcriptFlags) error {
	if a.output == formatJSON && (a.shape.query != nil || a.shape.as != formatJSON) { // made of the whole
		told, err := a.toldJSON(ctx, st, s, f)
		if err != nil {
			return err
		}
		return a.json(told)
	}
	buf := bufio.NewWriterSize(a.out, 64<<10)
	inner := *a // what is written below goes through one buffer
	inner.out = buf
	var out transcriptOut
	switch a.output {
	case formatJSON:
		out = &transcriptJSON{a: &inner}
	case formatJSONL:
		out = transcriptLines{&inner}
	default:
		out = &transcriptText{a: &inner, full: f.full}
	}
	err := a.writeTranscript(ctx, st, s, f, out)
	return errors.Join(err, buf.Flush())
}

// toldJSON is a run's transcript as one value.
func (a *app) toldJSON(ctx context.Context, st ledger.Store, s ledger.Summary, f transcriptFlags) (json.RawMessage, error) {
	var told bytes.Buffer
	inner := *a
	inner.out, inner.shape = &told, shape{}
	err := inner.writeTranscript(ctx, st, s, f, &transcriptJSON{a: &inner})
	return told.Bytes(), err
}

func (a *app) writeTranscript(ctx context.Context, st ledger.Store, s ledger.Summary, f transcriptFlags, out transcriptOut) error {
	v := a.runView(s)
	if err := out.head(v); err != nil {
		return err
	}
	parts, notes, err := lineage(ctx, st, s.Run)
	if err != nil {
		return err
	}
	var last *telling.Section
	var own *telling.Teller
	for i, p := range append(parts, part{run: s.ID}) {
		inherited := i < len(parts)
		if inherited {
			if err := out.inherit(p); err != nil {
				return err
			}
		} else if i > 0 {
			if err := out.inherit(part{}); err != nil {
				return err
			}
		}
		own = telling.NewTeller(p.run, inherited, func(sec *telling.Section) error {
			if err := a.readPrompt(ctx, st, s.Tenant, sec, f); err != nil {
				return err
			}
			return out.section(sec)
		})
		own.Last = last
		if err := readPart(ctx, st, p, own); err != nil {
			return err
		}
		if inherited {
			if _, err := own.End(); err != nil {
				return err
			}
			last = own.Last
		}
	}
	facts, err := st.Pending(ctx, s.ID)
	if err != nil {
		return err
	}
	own.Pending(facts)
	totals, err := own.End()
	if err != nil {
		return err
	}
	more, err := a.agrees(ctx, st, s.Run, totals.Sums)
	if err != nil {
		return err
	}
	return out.end(totals, append(notes, more...))
}

// lineage is what a run inherits, the oldest first. Runs that are older than
// what is kept are said to be missing.
func lineage(ctx context.Context, st ledger.Store, r ledger.Run) (parts []part, notes []string, err error) {
	for n := 0; !r.ForkOf.IsZero() && n < maxChain; n++ {
		p := part{r.ForkOf, r.ForkSeq}
		o, err := st.Run(ctx, r.ForkOf)
		if errors.Is(err, ledger.ErrNotFound) {
			notes = append(notes, fmt.Sprintf("run %s, whose history it begins with, is not kept any more", p.run))
			break
		}
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, p)
		r = o
	}
	if !r.Continues.IsZero() && len(parts) > 0 { // a run of the session says so itself
		notes = append(notes, fmt.Sprintf("run %s goes on in session %s, whose earlier runs are not in it", r.ID, r.SessionID))
	}
	slices.Reverse(parts)
	return parts, notes, nil
}

func readPart(ctx context.Context, st ledger.Store, p part, t *telling.Teller) error {
	err := st.Events(ctx, p.run, 1, func(e events.Sealed) error {
		if p.seq > 0 && e.Envelope().Seq > p.seq {
			return errEnough
		}
		return t.Event(e)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read events of run %s: %w", p.run, err)
	}
	return nil
}

// readPrompt puts the text of the prompt beside what is said of it.
func (a *app) readPrompt(ctx context.Context, st ledger.Store, tenant string, s *telling.Section, f transcriptFlags) error {
	for _, v := range s.Told {
		if !f.prompt || v.Kind != telling.ToldPrompt || v.Prompt.IsZero() {
			continue
		}
		b, _, err := st.Blob(ctx, tenant, v.Prompt)
		if errors.Is(err, ledger.ErrNotFound) {
			v.Label, v.Tone = "prompt is not kept any more", telling.ToneWarn
			continue
		}
		if err != nil {
			return fmt.Errorf("read prompt %s: %w", v.Prompt, err)
		}
		v.Text, v.Status = string(b), "shown"
	}
	return nil
}

// agrees compares what the events come to with what costs says of the run.
func (a *app) agrees(ctx context.Context, st ledger.Store, r ledger.Run, s *telling.SumsView) (notes []string, err error) {
	rows, err := st.Costs(ctx, ledger.CostFilter{Run: r.ID})
	if err != nil {
		return nil, err
	}
	var sum ledger.CostRow
	for _, row := range rows {
		sum = sum.Plus(row)
	}
	c := costViewOf(sum, "")
	if c.ModelCost.orZero().Cmp(s.ModelCost.OrZero()) != 0 || c.ToolCost.orZero().Cmp(s.ToolCost.OrZero()) != 0 || c.ModelCalls != s.ModelCalls ||
		c.ToolCalls != s.ToolCalls || c.Unpriced != s.Unpriced || c.Unmeasured != s.Unmeasured || c.Unsettled != s.Unsettled {
		notes = append(notes, "costs does not say the same yet, because the run goes on or the projector is behind:\n"+a.command("costs", "--run", r.ID.String()))
	}
	below, err := st.Descendants(ctx, r.ID, 1000)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(below, func(d ledger.Run) bool { return d.Parent == r.ID }) {
		notes = append(notes, "what its child runs cost is not in it:\n"+a.command("costs", "--run", r.ID.String(), "--lineage"))
	}
	return notes, nil
}

// transcriptLines writes jsonl.
type transcriptLines struct{ a *app }

func (o transcriptLines) head(v runView) error { return o.a.jsonLine(headView{"run", v}) }
func (transcriptLines) inherit(part) error     { return nil }

func (o transcriptLines) section(s *telling.Section) error {
	for _, v := range s.Views() {
		if err := o.a.jsonLine(v); err != nil {
			return err
		}
	}
	return nil
}

func (o transcriptLines) end(totals *telling.ToldView, _ []string) error { return o.a.jsonLine(totals) }

// transcriptJSON writes one object, without holding all of it at once.
type transcriptJSON struct {
	a    *app
	told int
}

// put writes v behind before, the last line of which says how far it is indented.
func (o *transcriptJSON) put(before string, v any) error {
	indent := before[strings.LastIndexByte(before, '\n')+1:]
	b, err := json.MarshalIndent(v, indent[:len(indent)-len(strings.TrimLeft(indent, " "))], "  ")
	if err == nil {
		_, err = fmt.Fprintf(o.a.out, "%s%s", before, b)
	}
	return err
}

func (o *transcriptJSON) head(v runView) error {
	if err := o.put("{\n  \"run\": ", v); err != nil {
		return err
	}
	_, err := fmt.Fprint(o.a.out, ",\n  \"told\": [")
	return err
}

func (*transcriptJSON) inherit(part) error { return nil }

func (o *transcriptJSON) section(s *telling.Section) error {
	for _, v := range s.Views() {
		before := ",\n    "
		if o.told == 0 {
			before = "\n    "
		}
		o.told++
		if err := o.put(before, v); err != nil {
			return err
		}
	}
	return nil
}

func (o *transcriptJSON) end(totals *telling.ToldView, _ []string) error {
	if err := o.put("\n  ],\n  \"totals\": ", totals.Sums); err != nil {
		return err
	}
	_, err := fmt.Fprintln(o.a.out, "\n}")
	return err
}
