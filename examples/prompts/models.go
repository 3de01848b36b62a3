package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/openai"
)

// house is a provider of one's own: any type with this one method. It knows which
// tool to ask and has no words, so that the next model of the agent's chain answers.
type house struct{}

func (house) Call(_ context.Context, r model.Request) (model.Response, error) {
	if r.Messages[len(r.Messages)-1].Role == model.Tool {
		return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errors.New("the house model writes no answers")}
	}
	return model.Response{
		Model: "house", StopReason: "tool_use", Usage: events.Usage{Input: 40, Output: 5},
		Calls: []events.ToolCall{{Name: "stock", Arguments: json.RawMessage(`{"lamp":"brass"}`)}},
	}, nil
}

// served is a provider that ships: the client of Chat Completions, here with a server
// in this process, so that the example needs no network.
func served() (m model.Model, stop func(), err error) {
	s := httptest.NewServer(http.HandlerFunc(answer))
	m, err = openai.New(openai.Config{API: openai.Chat, BaseURL: s.URL, Model: "parrot-1"})
	return m, s.Close, err
}

// answer is what that server says: what the tool said, and what its system prompt
// wants at the end. A real model would do what the prompt says for a better reason.
func answer(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said := []string{in.Messages[len(in.Messages)-1].Content}
	for line := range strings.Lines(in.Messages[0].Content) {
		if end, ok := strings.CutPrefix(strings.TrimSpace(line), "End with: "); ok {
			said = append(said, end)
		}
	}
	type object = map[string]any
	delta := object{"role": "assistant", "content": strings.Join(said, " ")}
	b, _ := json.Marshal(object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "parrot-1",
		"choices": []any{object{"index": 0, "delta": delta, "finish_reason": "stop"}},
		"usage":   object{"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110},
	})
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", b)
}
