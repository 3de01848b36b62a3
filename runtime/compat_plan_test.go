package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// plan is what the recorded runs do: their input lists, turn by turn, the calls
// that the model asks for. It answers by how long the conversation is, so that
// any version, on any worker, is answered the same.
type plan struct{}

func (plan) Call(_ context.Context, r model.Request) (model.Response, error) {
	var turns [][]string
	if err := json.Unmarshal([]byte(r.Messages[0].Text), &turns); err != nil {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: err}
	}
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	out := model.Response{Model: r.Model, StopReason: "end_turn", Text: "That is all.", Usage: events.Usage{Input: 10, Output: 1}}
	if n >= len(turns) {
		return out, nil
	}
	if len(turns[n]) == 1 && turns[n][0] == "overloaded" {
		return model.Response{}, &model.Error{Kind: "overloaded", Err: errors.New("come back later")}
	}
	out.StopReason, out.Text = "tool_use", ""
	for _, c := range turns[n] {
		name, args, _ := strings.Cut(c, " ")
		if args == "" {
			args = "{}"
		}
		out.Calls = append(out.Calls, events.ToolCall{Name: name, Arguments: json.RawMessage(args)})
	}
	return out, nil
}

// site is where the tools of the recorded runs act. Text says what happens:
// "lost" takes effect and loses the answer the first time, "hang" never comes
// back while it is stuck, "no" is refused.
type site struct {
	provider
	stuck atomic.Bool
	hung  sync.WaitGroup
}

func (s *site) act(ctx context.Context, key, text string) (string, error) {
	switch {
	case strings.HasPrefix(text, "no"):
		return "", tools.NoEffect(errors.New("no such order"))
	case strings.HasPrefix(text, "hang") && s.stuck.Load():
		s.hung.Done()
		<-ctx.Done()
		return "", ctx.Err()
	case strings.HasPrefix(text, "lost") && s.stuck.Load():
		s.apply(key)
		return "", errLost
	}
	if s.count(key) == 0 {
		s.apply(key)
	}
	return "did " + text, nil
}

func (s *site) tools() []tools.Tool {
	make := func(name string, def tools.Definition) tools.Tool {
		def.Name, def.Description = name, "Does "+name+"."
		if def.Timeout == 0 {
			def.Timeout = 2 * time.Second
		}
		return must(tools.New(def, func(ctx context.Context, inv *tools.Invocation, in text) (string, error) {
			if def.Effect == tools.Readonly {
				if strings.HasPrefix(in.Text, "hang") && s.stuck.Load() {
					s.hung.Done()
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "saw " + in.Text, nil
			}
			return s.act(ctx, inv.OpKey, in.Text)
		}))
	}
	return []tools.Tool{
		make("look", tools.Definition{Effect: tools.Readonly, Trust: tools.Own, Timeout: time.Minute}),
		make("pay", tools.Definition{Effect: tools.Destructive, Trust: tools.Own}),
		make("payhang", tools.Definition{Effect: tools.Destructive, Trust: tools.Own, Timeout: time.Minute}),
		make("keyed", tools.Definition{Effect: tools.Destructive, Trust: tools.Own, Recovery: tools.Keyed(30 * 365 * 24 * time.Hour), Timeout: time.Minute}),
		make("shared", tools.Definition{Effect: tools.Destructive, Trust: tools.Own, Scope: tools.ScopeTenant, Window: tools.Forever}),
		make("loose", tools.Definition{Effect: tools.Destructive, Trust: tools.External, InDoubtContinue: true}),
	}
}
