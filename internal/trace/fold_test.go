package trace

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
)

var (
	begin = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	run   = events.RunID{1, 2, 3}
	op    = events.EffectRef{OpKey: events.Hash{9}, Generation: 1, Attempt: 1, Recovery: "none"}
)

// record numbers events: one each second.
type record struct {
	trace string
	es    []events.Event
	epoch uint64
}

func (r *record) add(ps ...events.Payload) *record {
	for _, p := range ps {
		if resumed, ok := p.(events.RunResumed); ok {
			r.epoch = resumed.Epoch
		}
		n := uint64(len(r.es) + 1)
		r.es = append(r.es, events.Event{Data: p, Envelope: events.Envelope{
			RunID: run, Seq: n, Epoch: max(r.epoch, 1), Type: events.TypeOf(p), Time: begin.Add(time.Duration(n) * time.Second), Tenant: "acme", Trace: r.trace,
		}})
	}
	return r
}

func own() string {
	t := ID{7}
	return Parent{Trace: t, Span: Root(t), Flags: 1}.String()
}

func fold(es []events.Event, o Options) (f *Fold, all []Span) {
	f = New(run, o)
	for _, e := range es {
		all = append(all, f.Apply(e)...)
	}
	return f, all
}

// tree draws spans by parent, with what tells them apart.
func tree(spans []Span) string {
	byParent := map[SpanID][]Span{}
	ids := map[SpanID]string{}
	for _, s := range spans {
		ids[s.ID] = s.Name
	}
	for _, s := range spans {
		p := s.Parent
		if ids[p] == "" {
			p = SpanID{}
		}
		byParent[p] = append(byParent[p], s)
	}
	var b strings.Builder
	var draw func(p SpanID, depth int)
	draw = func(p SpanID, depth int) {
		ss := byParent[p]
		slices.SortStableFunc(ss, func(a, b Span) int { return a.Start.Compare(b.Start) })
		for _, s := range ss {
			fmt.Fprintf(&b, "%s%s %d-%d", strings.Repeat("  ", depth), s.Name, int(s.Start.Sub(begin).Seconds()), int(s.End.Sub(begin).Seconds()))
			if s.ErrorType != "" {
				fmt.Fprintf(&b, " !%s", s.ErrorType)
			}
			for _, key := range []string{InputTokens, Cost, Repeated, Resolved, StoppedBy} {
				if v := s.Attr(key); v != nil {
					fmt.Fprintf(&b, " %s=%v", key[strings.LastIndex(key, ".")+1:], v)
				}
			}
			for _, l := range s.Links {
				fmt.Fprintf(&b, " (%s %s)", l.Why, ids[l.Span])
			}
			b.WriteByte('\n')
			draw(s.ID, depth+1)
		}
	}
	draw(SpanID{}, 0)
	return b.String()
}

func refunds() *record {
	price := events.PicoUSD(357_000_000)
	call := events.CallID{Turn: 1}
	ref := op
	again := events.CallID{Turn: 2}
	return (&record{trace: own()}).add(
		events.RunQueued{Agent: "refunds", Queue: "default", Owner: "ada", Root: run, QueuedAt: begin},
		events.RunStarted{Worker: "a", Agent: "refunds", Model: "m1", Loop: "singleshot"},
		events.TurnStarted{Turn: 1},
		events.ModelCallStarted{Turn: 1, Attempt: 1, Model: "m1"},
		events.ModelCallFinished{
			Turn: 1, Attempt: 1, Model: "m1", ServedModel: "m1-b", StopReason: "tool_use", Usage: events.Usage{Input: 10, CacheRead: 90, Output: 5}, Cost: &price,
			Text: "I refund it.", ToolCalls: []events.ToolCall{{Name: "refund", Arguments: json.RawMessage(`{"order":"7"}`)}}, LatencyMS: 900,
		},
		events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "refund", Effect: "destructive", Ref: &ref, Arguments: json.RawMessage(`{"order":"7"}`)},
		events.ToolExecutionStarted{Call: events.CallID{Turn: 1, Index: 1}, Attempt: 1, Tool: "look", Effect: "readonly"},
		events.RunResumed{Worker: "b", Epoch: 2}, // a was killed
		events.ToolExecutionInDoubt{Call: call, Attempt: 1, Tool: "refund", Ref: ref, Cause: "takeover"},
		events.ToolExecutionStarted{Call: events.CallID{Turn: 1, Index: 1}, Attempt: 2, Tool: "look", Effect: "readonly"},
		events.ToolExecutionFinished{Call: events.CallID{Turn: 1, Index: 1}, Attempt: 2, Tool: "look", Result: events.ToolResult{Status: "completed", Output: "seen"}},
		events.RunParked{Reason: events.ParkInDoubt, Detail: "refund t1.c0"},
		events.EffectResolved{Call: call, Tool: "refund", Ref: ref, State: events.EffectApplied, By: "ann", Result: events.ToolResult{Status: "completed"}},
		events.RunUnparked{Reason: events.ParkInDoubt},
		events.RunResumed{Worker: "b", Epoch: 3},
		events.TurnStarted{Turn: 2},
		events.ModelCallStarted{Turn: 2, Attempt: 1, Model: "m1"},
		events.RunResumed{Worker: "c", Epoch: 4}, // b was killed
		events.ModelCallStarted{Turn: 2, Attempt: 2, Model: "m1"},
		events.ModelCallFinished{Turn: 2, Attempt: 1, Model: "m1", ServedModel: "m1", Usage: events.Usage{Input: 3}, LatencyMS: 3000}, // b's answer, late
		events.ModelCallError{Turn: 2, Attempt: 2, Model: "m1", Error: events.ErrorInfo{Kind: "overloaded", Message: "busy"}},
		events.ModelCallStarted{Turn: 2, Attempt: 3, Model: "m1"},
		events.ModelCallFinished{Turn: 2, Attempt: 3, Model: "m1", ServedModel: "m1", Usage: events.Usage{Missing: true}, ToolCalls: []events.ToolCall{{Name: "refund"}}},
		events.ToolExecutionFinished{Call: again, Attempt: 1, Tool: "refund", Repeated: true, Of: &events.CallRef{Run: run, Call: call}},
		events.ToolExecutionBlocked{Call: events.CallID{Turn: 2, Index: 1}, Tool: "rm", Reason: events.BlockedToolDenied},
		events.ArtifactValidationStarted{Turn: 2, Artifact: "notes"},
		events.ArtifactValidationFinished{Turn: 2, Artifact: "notes", OK: true},
		events.RunFinished{StoppedBy: events.StoppedByFinish, Turns: 2},
	)
}

func TestTraceOfARunWithKills(t *testing.T) {
	f, spans := fold(refunds().es, Options{})
	got := tree(spans)
	golden := strings.TrimLeft(`
invoke_agent refunds 0-28 stopped_by=finish
  queue default 0-1
  lease a 2-8 !worker_lost
    chat m1 4-5 input_tokens=100 usd=0.000357
    execute_tool refund 6-9 !in_doubt
    execute_tool look 7-8 !interrupted
  lease b 8-12 (resumes lease a)
    execute_tool look 10-11
  in doubt refund 9-13 resolved=applied (in doubt execute_tool refund)
  wait in_doubt 12-14
  lease b 15-18 !worker_lost (resumes lease b)
    chat m1 17-18 !interrupted
  lease c 18-28 (resumes lease b)
    chat m1 17-20 input_tokens=3 (late outcome of chat m1)
    chat m1 19-21 !overloaded
    chat m1 22-23
    execute_tool refund 24-24 repeated=true
    execute_tool rm 25-25 !tool_denied
    validate notes 26-27
`, "\n")
	if d := cmp.Diff(golden, got); d != "" {
		t.Errorf("trace (-want +got):\n%s", d)
	}
	if !f.Ended() || len(f.Open(begin)) != 0 {
		t.Errorf("open after the end: %+v", f.Open(begin))
	}
	t.Run("usage stands on chat spans alone, each token once", func(t *testing.T) {
		var in int64
		for _, s := range spans {
			n, ok := s.Attr(InputTokens).(int64)
			if ok && s.Attr(OperationName) != Chat {
				t.Errorf("%s has usage", s.Name)
			}
			in += n
		}
		if in != 103 {
			t.Errorf("%d input tokens, want 103", in)
		}
	})
	t.Run("ids are unique, and one trace", func(t *testing.T) {
		seen := map[SpanID]bool{}
		for _, s := range spans {
			if seen[s.ID] || s.ID.IsZero() || s.Trace != (ID{7}) || !s.Sampled || s.End.Before(s.Start) {
				t.Errorf("%+v", s)
			}
			seen[s.ID] = true
		}
	})
	t.Run("content is left out", func(t *testing.T) {
		for _, s := range spans {
			for _, key := range []string{ToolArguments, ToolResult, OutputMessages} {
				if s.Attr(key) != nil {
					t.Errorf("%s has %s", s.Name, key)
				}
			}
		}
		_, with := fold(refunds().es, Options{Content: true})
		found := map[string]bool{}
		for _, s := range with {
			for _, key := range []string{ToolArguments, ToolResult, OutputMessages} {
				found[key] = found[key] || s.Attr(key) != nil
			}
		}
		if len(found) != 3 || !found[ToolArguments] || !found[ToolResult] || !found[OutputMessages] {
			t.Errorf("asked for: %v", found)
		}
	})
	t.Run("cut anywhere, folded again, and told twice it is the same", func(t *testing.T) {
		es := refunds().es
		for cut := range es {
			f, got := fold(es[:cut], Options{})
			open := f.Open(begin.Add(time.Hour))
			for _, e := range append(slices.Clone(es[:cut]), es[cut:]...) { // what was told is skipped
				got = append(got, f.Apply(e)...)
			}
			if d := cmp.Diff(tree(spans), tree(got)); d != "" {
				t.Fatalf("cut at %d:\n%s", cut, d)
			}
			if cut > 0 && len(open) == 0 && cut < len(es) {
				t.Errorf("cut at %d: nothing is open", cut)
			}
		}
	})
}

func TestWhereTheTraceComesFrom(t *testing.T) {
	theirs := Parent{Trace: ID{3}, Span: SpanID{4}, Flags: 0}
	queued := events.RunQueued{Agent: "a", Root: run}
	for _, tt := range []struct {
		name, trace string
		queued      events.RunQueued
		trc         ID
		parent      SpanID
		sampled     bool
	}{
		{"its own", own(), queued, ID{7}, SpanID{}, true},
		{"of whoever submits it", theirs.String(), queued, ID{3}, SpanID{4}, false},
		{"a retry is beside the first", own(), events.RunQueued{Agent: "a", Root: run, RetryOf: events.RunID{5}}, ID{7}, Root(ID{7}), true},
		{"a child", own(), events.RunQueued{Agent: "a", Root: events.RunID{5}}, ID{7}, Root(ID{7}), true},
		{"of before there were traces", "", queued, ID(run), SpanID{}, true},
		{"nonsense", "00-zz", queued, ID(run), SpanID{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, spans := fold((&record{trace: tt.trace}).add(tt.queued, events.RunFinished{}).es, Options{})
			root := spans[len(spans)-1]
			if root.Trace != tt.trc || root.Parent != tt.parent || root.Sampled != tt.sampled {
				t.Errorf("trace %s parent %s sampled %v", root.Trace, root.Parent, root.Sampled)
			}
		})
	}
}

func TestParseParent(t *testing.T) {
	p := Parent{Trace: ID{1}, Span: SpanID{2}, Flags: 1}
	if got, ok := ParseParent(p.String()); !ok || got != p {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, s := range []string{"", "00", "00-0-0-0", "01-" + p.String()[3:], "00-" + strings.Repeat("0", 32) + "-" + p.Span.String() + "-01", strings.ToUpper("00-xx") + p.String()[5:]} {
		if _, ok := ParseParent(s); ok {
			t.Errorf("%q is one", s)
		}
	}
}
