package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

// maxReason bounds what a person writes about an act, in bytes.
const maxReason = 2000

// Errors of [Acts], beside those of the ledger's methods behind them.
var (
	// ErrForbidden: the principal lacks the scope.
	ErrForbidden = errors.New("this token may not do that")
	// ErrReason: there is no reason, or none that can be kept.
	ErrReason = errors.New("say why, in 2000 bytes at most: the record keeps it, and a model may read it")
)

// Acts does to the ledger what its callers may do. Each act names the principal
// of the context as who did it, is a fact of the run, and has a line in the log,
// also when it is refused. What the principal may not see is
// [ledger.ErrNotFound]. Made by [Guard.Acts]. Safe for concurrent use.
type Acts struct {
	g   *Guard
	st  ledger.Store
	red *redact.Redactor
}

// Acts returns what does acts on st; red redacts what people write, where the
// ledger does not do it itself.
func (g *Guard) Acts(st ledger.Store, red *redact.Redactor) *Acts { return &Acts{g, st, red} }

// Settle says what became of an effect in doubt.
type Settle struct {
	OpKey events.Hash
	State events.EffectState // applied, not_applied or abandoned
	// Note is how they know. Required.
	Note string
	// Told is what the model reads; empty is a sentence that says State.
	Told string
	// Attempt is the latest attempt that they were shown ([ledger.Effect.Attempts]);
	// 0 = whichever it is.
	Attempt int
	// Force does not wait for quiescence, and the record says so.
	Force bool
}

// Decide answers a request for approval: scope approve. shown is the digest of what
// they were shown; zero = whatever the request is for. A reason is required to deny. Errors: those of [ledger.Approvals.Decide].
func (a *Acts) Decide(ctx context.Context, id events.ID, shown events.Hash, approve bool, reason string) (ap ledger.Approval, err error) {
	verb := "deny"
	if approve {
		verb = "approve"
	}
	err = a.act(ctx, Approve, act{verb, "approval", id.String()}, reason, approve, func(p Principal, reason string) (events.RunID, error) {
		if ap, err = Scoped(a.st, p).Approval(ctx, id); err != nil {
			return events.RunID{}, err
		}
		run := ap.Run
		ap, err = a.st.Decide(ctx, ledger.Decision{Approval: id, Digest: shown, Approve: approve, By: p.Actor(), Reason: reason})
		return run, err
	})
	return ap, err
}

// Resolve settles an effect in doubt: scope resolve. Errors: those of
// [ledger.Effects.Resolve].
func (a *Acts) Resolve(ctx context.Context, s Settle) (set ledger.Settlement, err error) {
	err = a.act(ctx, Resolve, act{"resolve", "effect", s.OpKey.String()}, s.Note, false, func(p Principal, note string) (events.RunID, error) {
		e, err := (&scoped{a.st, p}).effect(ctx, s.OpKey)
		if err != nil {
			return events.RunID{}, err
		}
		told, ok := written(s.Told)
		if !ok {
			return e.Run, ErrReason
		}
		by, err := a.by(ctx, p)
		if err != nil {
			return e.Run, err
		}
		// Bound to the run that was checked: the effect may go to one that is not theirs.
		r := ledger.Resolution{OpKey: s.OpKey, State: s.State, By: by, Note: note, Force: s.Force, Attempt: s.Attempt, Run: e.Run}
		if told != "" {
			r.Result = toldAs(s.State, a.red.String(told))
		}
		set, err = a.st.Resolve(ctx, r)
		return e.Run, err
	})
	return set, err
}

// toldAs is what the model reads, in words that a person gave.
func toldAs(state events.EffectState, words string) events.ToolResult {
	if state == events.EffectApplied {
		return events.ToolResult{Status: "completed", Output: words, Trust: "own"}
	}
	return events.ToolResult{Status: "failed", Error: words, Trust: "own"}
}

// Cancel asks that a run be stopped: scope resolve. Errors: those of [ledger.Runs.Cancel].
func (a *Acts) Cancel(ctx context.Context, run events.RunID, reason string) (r ledger.Run, err error) {
	err = a.act(ctx, Resolve, act{"cancel", "run", run.String()}, reason, false, func(p Principal, reason string) (events.RunID, error) {
		if _, err := Scoped(a.st, p).Run(ctx, run); err != nil {
			return run, err
		}
		by, err := a.by(ctx, p)
		if err != nil {
			return run, err
		}
		r, err = a.st.Cancel(ctx, run, by, reason)
		return run, err
	})
	return r, err
}

// by is who the record names where the ledger does not add the database's role itself.
func (a *Acts) by(ctx context.Context, p Principal) (string, error) {
	role, err := a.st.Role(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the database who is connected: %w", err)
	}
	if role == "" {
		return p.Actor(), nil
	}
	return p.Actor() + " (database role " + role + ")", nil
}

// act is what the log says of one.
type act struct{ verb, kind, id string }

// act does something that needs a scope, for the principal of ctx, and logs it.
func (a *Acts) act(ctx context.Context, need Scope, what act, reason string, mayBeSilent bool, do func(Principal, string) (events.RunID, error)) error {
	p, ok := From(ctx)
	if !ok || !p.Can(need) {
		err := fmt.Errorf("%s %s %s: %w: it needs the scope %s", what.verb, what.kind, what.id, ErrForbidden, need)
		a.log(ctx, p, what, events.RunID{}, err)
		return err
	}
	text, ok := written(reason)
	var run events.RunID
	var err error
	if !ok || text == "" && !mayBeSilent {
		err = fmt.Errorf("%s %s %s: %w", what.verb, what.kind, what.id, ErrReason)
	} else {
		run, err = do(p, text)
	}
	a.log(ctx, p, what, run, err)
	return err
}

// written is what a person wrote as it is kept: forms end lines in their own way.
// false: too long, or not text.
func written(s string) (string, bool) {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
	odd := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	return s, len(s) <= maxReason && utf8.ValidString(s) && !strings.ContainsFunc(s, odd)
}

// log says who did what, or why not. The reasons of refusals are of a fixed set,
// and of each there are only so many lines; what was done is always said.
func (a *Acts) log(ctx context.Context, p Principal, what act, run events.RunID, err error) {
	args := []any{"act", what.verb, what.kind, what.id, "actor", p.Actor(), "request", RequestID(ctx).String()}
	if !run.IsZero() && what.kind != "run" {
		args = append(args, "run", run.String())
	}
	if err == nil {
		a.g.o.Logger.InfoContext(ctx, "act", args...)
		return
	}
	why := refusedBecause(err)
	if a.g.lines.take("act "+why+" "+p.Token, a.g.o.Now()) {
		a.g.o.Logger.WarnContext(ctx, "act refused", append(args, "reason", why)...)
	}
}

func refusedBecause(err error) string {
	for _, k := range []struct {
		err    error
		reason string
	}{
		{ErrForbidden, "scope"},
		{ErrReason, "no_reason"},
		{ledger.ErrNotFound, "not_found"}, // or another's: whoever asked is told no more, and neither is who only reads the log
		{ledger.ErrDecided, "decided"},
		{ledger.ErrOtherCall, "other_call"},
		{ledger.ErrExpired, "expired"},
		{ledger.ErrEnded, "ended"},
		{ledger.ErrNotQuiescent, "not_quiescent"},
		{ledger.ErrNotInDoubt, "not_in_doubt"},
		{ledger.ErrAttemptedSince, "attempted_since"},
		{ledger.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, k.err) {
			return k.reason
		}
	}
	return "failed"
}
