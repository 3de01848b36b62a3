// Package modeltest is the conformance suite of [model.Model]: what the
// runtime relies on, whoever provides the model.
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/model"
)

// Features says what an implementation can be made to do.
type Features struct {
	// FailOn is a user message that the model answers with an error; empty: skip.
	FailOn string
}

// kinds are the values of [model.Error.Kind]; each is stored.
var kinds = []string{
	"rate_limited", "overloaded", "timeout", "invalid_request", "unauthorized",
	"malformed_answer", "script_exhausted", "unavailable", events.KindContextFull,
}

func request(text string) model.Request {
	return model.Request{
		Model:    "test",
		System:   "Answer briefly.",
		Messages: []model.Message{{Role: model.User, Text: text}},
		Tools:    []model.Spec{{Name: "lookup", Description: "Looks up.", Schema: json.RawMessage(`{"type":"object"}`)}},
	}
}

// TestModel runs the suite. open returns a model of its own for each test.
func TestModel(t *testing.T, open func(t *testing.T) model.Model, f Features) {
	t.Run("a context that has ended is returned as its error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := open(t).Call(ctx, request("hello")); !errors.Is(err, context.Canceled) {
			t.Errorf("Call = %v, want context.Canceled in it", err)
		}
	})
	t.Run("an answer is whole", func(t *testing.T) { answer(t, open(t), request("hello")) })
	t.Run("no tools is no error", func(t *testing.T) {
		r := request("hello")
		r.Tools = nil
		answer(t, open(t), r)
		r.Tools = []model.Spec{}
		answer(t, open(t), r)
	})
	t.Run("thinking and a format are no error", func(t *testing.T) {
		r := request("hello")
		r.Thinking = "low"
		r.Format = &model.Format{Name: "answer", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
		answer(t, open(t), r)
	})
	t.Run("a transcript of another model is taken", func(t *testing.T) {
		r := request("hello")
		said := model.Message{Role: model.Assistant, Text: "looking", By: "another", Calls: []model.Call{{ID: "t1.c0", Name: "lookup", Arguments: json.RawMessage(`{}`)}}, Blocks: []events.Block{
			{Kind: events.BlockReasoning, Text: "hm", Format: "another/format", Data: json.RawMessage(`{"signature":"x"}`)}, {Kind: events.BlockText}, {Kind: events.BlockCall},
		}}
		r.Messages = append(r.Messages, said, model.Message{Role: model.Tool, Results: []model.Result{{CallID: "t1.c0", Name: "lookup", Text: "found"}}})
		answer(t, open(t), r)
		r.Messages = model.OwnBlocks(r.Messages, "this one")
		answer(t, open(t), r)
	})
	t.Run("a transcript with calls and results is taken", func(t *testing.T) {
		r := request("hello")
		r.Messages = append(r.Messages,
			model.Message{Role: model.Assistant, Text: "looking", Calls: []model.Call{
				{ID: "t1.c0", Name: "lookup", Arguments: json.RawMessage(`{"id":9007199254740993}`)},
				{ID: "t1.c1", Name: "gone", Arguments: json.RawMessage(`"{half"`)},
			}},
			model.Message{Role: model.Tool, Results: []model.Result{
				{CallID: "t1.c0", Name: "lookup", Text: "found", Repeated: true},
				{CallID: "t1.c1", Name: "gone", Text: "not run", Failed: true},
			}})
		answer(t, open(t), r)
	})
	t.Run("a request is not changed", func(t *testing.T) {
		r := request("hello")
		before, err := r.Hash()
		if err != nil {
			t.Fatal(err)
		}
		answer(t, open(t), r)
		if after, err := r.Hash(); err != nil || after != before {
			t.Errorf("the request hashes to %s (%v), before the call to %s", after, err, before)
		}
	})
	t.Run("concurrent calls do not disturb each other", func(t *testing.T) {
		m := open(t)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() { answer(t, m, request("hello")) })
		}
		wg.Wait()
	})
	t.Run("who watches hears the text of the answer", func(t *testing.T) {
		m, ok := open(t).(model.Streamer)
		if !ok {
			t.Skip("this model tells nothing before its answer is whole")
		}
		text, over := "", false
		resp, err := m.Stream(t.Context(), request("hello"), func(d model.Delta) {
			if over {
				t.Error("told of the answer after it was given")
			}
			if d.Kind == events.BlockText {
				text += d.Text
			}
		})
		over = true
		if err != nil || text != resp.Text {
			t.Errorf("told %q of %q (%v)", text, resp.Text, err)
		}
	})
	t.Run("an error is typed", func(t *testing.T) {
		if f.FailOn == "" {
			t.Skip("this model cannot be made to fail")
		}
		_, err := open(t).Call(t.Context(), request(f.FailOn))
		var e *model.Error
		if !errors.As(err, &e) {
			t.Fatalf("Call = %v, want a *model.Error in it", err)
		}
		if !slices.Contains(kinds, e.Kind) {
			t.Errorf("kind %q, want one of %q", e.Kind, kinds)
		}
		if e.Err == nil {
			t.Error("the error does not say what happened")
		}
		if e.RetryAfter < 0 || e.RetryAfter > 0 && !e.Retryable {
			t.Errorf("retry after %v, retryable %t", e.RetryAfter, e.Retryable)
		}
	})
}

// answer checks what every answer must be.
func answer(t *testing.T, m model.Model, r model.Request) {
	t.Helper()
	resp, err := m.Call(t.Context(), r)
	if err != nil {
		t.Errorf("Call: %v", err)
		return
	}
	if resp.Model == "" {
		t.Error("no model served: there is nothing to price by")
	}
	if resp.StopReason == "" {
		t.Error("no stop reason")
	}
	if resp.LimitedFor < 0 {
		t.Errorf("limited for %v", resp.LimitedFor)
	}
	u := resp.Usage
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 {
		t.Errorf("usage below zero: %+v", u)
	}
	if !u.Missing && u.Input+u.CacheRead+u.CacheWrite == 0 {
		t.Errorf("usage %+v of a request with text, want tokens or Missing", u)
	}
	for i, c := range resp.Calls {
		if _, err := canonical.JSON(c.Arguments); err != nil {
			t.Errorf("arguments of call %d cannot be recorded: %v", i, err)
		}
	}
}
