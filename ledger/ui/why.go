package ui

import (
	"context"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// leadSentences is how many sentences of an explanation are shown at once; the
// others unfold.
const leadSentences = 4

// why says why a run or a call is where it is, in the sentences of ledgerctl why.
type why struct {
	said, more []string
	steps      []step
}

// step is something to do next: a link, or a line to type where the page has no
// place for it.
type step struct{ href, label, line, what string }

// explainer explains what c may show.
func (p *page) explainer(c *chrome) telling.Explainer {
	return telling.Explainer{
		From: c.read, Now: func() time.Time { return c.now }, Since: func(t time.Time) string { return stamp(t) + " (" + c.ago(t) + ")" },
		Where: func(...string) string { return "the transcript has all of them" },
		Force: "force", Grace: p.Grace, Limited: !c.who.All(),
	}
}

func (p *page) whyRun(ctx context.Context, c *chrome, s ledger.Summary) (*why, error) {
	e, err := p.explainer(c).WhyRun(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.why(e), nil
}

func (p *page) whyCall(ctx context.Context, c *chrome, run ledger.Run, call events.CallID) (*why, error) {
	e, ok, err := p.explainer(c).WhyCall(ctx, run, call)
	if err != nil || !ok {
		return nil, err
	}
	return c.why(e), nil
}

func (c chrome) why(e telling.Explanation) *why {
	w := &why{said: e.Why}
	if len(w.said) > leadSentences {
		w.said, w.more = w.said[:leadSentences], w.said[leadSentences:]
	}
	seen := map[string]bool{}
	for _, n := range e.Next {
		s := c.step(e, n)
		if s == (step{}) || seen[s.href+s.line] {
			continue
		}
		seen[s.href+s.line] = true
		w.steps = append(w.steps, s)
	}
	return w
}

// step is what to click for what ledgerctl says to type; the zero value on the page
// that it leads to.
func (c chrome) step(e telling.Explanation, n telling.Next) step {
	typed := step{line: typedLine(n.Words), what: n.For}
	if len(n.Words) < 2 {
		return typed
	}
	own, name := e.Run.String(), n.Words[1]
	switch n.Words[0] {
	case "approve", "deny":
		return step{href: c.to("inbox") + "#ask-" + name, label: "Decide in the inbox", what: "whether it may be done, once, with these arguments"}
	case "resolve":
		return step{href: c.to("inbox") + "#doubt-" + name, label: "Settle it in the inbox", what: "say what became of it, once you have looked"}
	case "cancel":
		if name == own && e.Call == "" && c.may(access.Resolve) {
			return step{href: "#stop", label: "Cancel this run", what: n.For}
		}
	case "verify":
		return step{href: c.to("runs", name, "record"), label: "Check its record", what: n.For}
	case "why":
		return c.led(e, name, n.For)
	case "calls":
		if name == "show" {
			return c.led(e, n.Words[2], n.For)
		}
	case "runs":
		switch name {
		case "show":
			return c.led(e, n.Words[2], n.For)
		case "tail":
			return step{} // this page looks again by itself
		}
	}
	return typed
}

// led is a link to a run or a call that is not the one that is explained.
func (c chrome) led(e telling.Explanation, name, what string) step {
	run, call, of := strings.Cut(name, "/")
	if run == e.Run.String() && call == e.Call {
		return step{}
	}
	if of {
		return step{href: c.to("runs", run, "calls", call), label: "Call " + call, what: what}
	}
	return step{href: c.to("runs", run), label: "Run " + run[max(len(run)-8, 0):], what: what}
}

// typedLine is a line to type.
func typedLine(words []string) string {
	out := "ledgerctl"
	for _, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune("-_./:,@%+=", r) && !alphanumeric(r) }) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out += " " + w
	}
	return out
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
