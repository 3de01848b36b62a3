package telling

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Effect is an effect with what else is known of it.
type Effect struct {
	ledger.Effect // Evidence is what is known of one in doubt
	Tried         []ledger.Attempt
	Waiting       []events.RunID // runs; nil: nobody has looked
	// Since is when it fell into doubt and Cause why; zero unless it is in doubt.
	Since time.Time
	Cause string
	// QuiescentAt is from when no attempt can still act; zero: no attempt has to end.
	QuiescentAt time.Time
}

// Effect gathers what is known of an effect.
func (t Explainer) Effect(ctx context.Context, e ledger.Effect) (Effect, error) {
	v := Effect{Effect: e, Waiting: []events.RunID{}}
	var err error
	if v.Tried, err = t.From.Attempts(ctx, e.OpKey); err != nil {
		return v, err
	}
	switch {
	case e.State != events.EffectInDoubt && e.State != events.EffectStarted:
	case t.Grace > 0 && !e.Deadline.IsZero():
		v.QuiescentAt = e.Deadline.Add(t.Grace)
	case t.Grace == 0 && e.QuiescentIn > 0:
		v.QuiescentAt = t.Now().Add(e.QuiescentIn)
	}
	if e.State == events.EffectInDoubt {
		if err := t.doubt(ctx, &v); err != nil {
			return v, err
		}
	}
	waiting, err := t.From.Waiting(ctx, e.OpKey)
	for _, r := range waiting {
		v.Waiting = append(v.Waiting, r.ID)
	}
	return v, err
}

// doubt finds out since when and why: in the records of the run, or in its
// facts while nobody has put them into the history.
func (t Explainer) doubt(ctx context.Context, v *Effect) error {
	rs, err := CallRecords(ctx, t.From, v.Run, func(r ledger.CallRecord) bool { return r.Status == "in_doubt" && r.OpKey == v.OpKey })
	if err != nil {
		return err
	}
	for _, r := range rs {
		v.Since, v.Cause, v.Evidence = r.At, r.Reason, r.Detail
	}
	fs, err := t.From.Pending(ctx, v.Run)
	if err != nil {
		return err
	}
	for _, f := range fs {
		p, err := events.DecodePayload(f.Type, f.Version, f.Data)
		if d, ok := p.(events.ToolExecutionInDoubt); err == nil && ok && d.Ref.OpKey == v.OpKey {
			v.Since, v.Cause, v.Evidence = d.At, d.Cause, d.Evidence
		}
	}
	if n := len(v.Tried); v.Since.IsZero() && n > 0 {
		// The record is behind: the attempt's own end is the best there is.
		if v.Since = v.Tried[n-1].EndedAt; v.Since.IsZero() {
			v.Since = v.Tried[n-1].StartedAt
		}
	}
	return nil
}

// CauseWords say why nobody can know; the keys are stored.
func CauseWords(cause string) string {
	words := map[string]string{
		"takeover":      "the worker that ran it went away before it said how it ended",
		"timeout":       "the tool gave no answer in time",
		"panic":         "the tool crashed",
		"unclear_error": "the tool failed in a way that does not say whether it took effect",
		"lease_lost":    "its worker lost the run while the tool was running",
		"restored":      "the database was restored to a moment before it began, and the journal does not say how it ended",
		"cancelled":     "the run was cancelled while the tool was running",
		"inherited":     "an earlier attempt of this work began it and ended without knowing",
	}[cause]
	if words == "" {
		return Either(" ", "cause", cause)
	}
	return words
}

// Resolution is a way to settle an effect in doubt, in the words of a command line.
type Resolution struct {
	Words []string
	For   string
}

// ResolutionsOf are all of them, of the latest attempt that is shown.
func ResolutionsOf(attempt int) []Resolution {
	n := strconv.Itoa(attempt)
	return []Resolution{
		{[]string{"--applied", "--attempt", n, "--note", "TEXT"}, "it happened"},
		{[]string{"--not-applied", "--attempt", n, "--note", "TEXT"}, "it did not happen and may be tried again"},
		{[]string{"--abandon", "--attempt", n, "--note", "TEXT"}, "nobody will ever know; never try again"},
	}
}

// Calls reads rows of calls.
type Calls interface {
	Calls(ctx context.Context, f ledger.CallFilter) ([]ledger.CallRecord, error)
}

// CallRecords returns the transitions of a run's calls that are kept, oldest first.
func CallRecords(ctx context.Context, from Calls, run events.RunID, keep func(ledger.CallRecord) bool) ([]ledger.CallRecord, error) {
	f := ledger.CallFilter{Run: run, All: true, Limit: 1000}
	var rs []ledger.CallRecord
	for {
		page, err := from.Calls(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if keep(r) {
				rs = append(rs, r)
			}
		}
		if len(page) < f.Limit {
			break
		}
		f.BeforeRun, f.BeforeSeq = run, page[len(page)-1].Seq
	}
	slices.Reverse(rs)
	return rs, nil
}

// LatestCalls is the row that tells most of each call of a run, in the order
// in which the calls were first seen: the terminal one, or the last of an open one.
func LatestCalls(ctx context.Context, from Calls, run events.RunID) ([]ledger.CallRecord, error) {
	all, err := CallRecords(ctx, from, run, func(r ledger.CallRecord) bool { return r.Status != "progress" })
	if err != nil {
		return nil, err
	}
	var order []events.CallID
	last := map[events.CallID]ledger.CallRecord{}
	for _, r := range all {
		before, seen := last[r.Call]
		if !seen {
			order = append(order, r.Call)
		}
		if !seen || r.Terminal || !before.Terminal {
			last[r.Call] = r
		}
	}
	out := make([]ledger.CallRecord, len(order))
	for i, c := range order {
		out[i] = last[c]
	}
	return out, nil
}

// Standing is the row that tells where a call stands: its outcome, or the last row
// of an open one. There has to be one.
func Standing(rs []ledger.CallRecord) ledger.CallRecord {
	last := rs[0]
	for _, r := range rs {
		if r.Terminal || !last.Terminal && r.Status != "progress" {
			last = r
		}
	}
	return last
}

// EffectList lists effects.
type EffectList interface {
	Effects(ctx context.Context, f ledger.EffectFilter) ([]ledger.Effect, error)
}

// EachEffect calls f with every effect that the filter selects.
func EachEffect(ctx context.Context, from EffectList, filter ledger.EffectFilter, f func(ledger.Effect)) error {
	filter.Limit = 1000
	for {
		es, err := from.Effects(ctx, filter)
		if err != nil {
			return err
		}
		for _, e := range es {
			f(e)
		}
		if len(es) < filter.Limit {
			return nil
		}
		filter.After = es[len(es)-1].OpKey
	}
}

// ResultOf reads the result of a call record; progress rows hold something else. A
// value of an unknown shape is nothing.
func ResultOf(raw json.RawMessage) (r events.ToolResult, progress string) {
	if len(raw) == 0 {
		return r, ""
	}
	var p struct {
		events.ToolResult
		Progress string `json:"progress"`
	}
	_ = json.Unmarshal(raw, &p)
	return p.ToolResult, p.Progress
}

// Period is the time that a rate counts in: 1h for 1h0m0s, and 30s stays.
func Period(d time.Duration) string {
	per := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if cut := strings.TrimSuffix(per, zero); strings.HasSuffix(cut, "m") || strings.HasSuffix(cut, "h") {
			per = cut
		}
	}
	return per
}

// CallName is RUN/t1.c0.
func CallName(run events.RunID, call events.CallID) string { return run.String() + "/" + call.String() }
