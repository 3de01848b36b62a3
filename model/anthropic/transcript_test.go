package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/anthropic"
	"github.com/daybookhq/daybook/model/internal/wiretest"
)

var update = flag.Bool("update", false, "rewrite the golden requests")

const signature = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"

// TestTranscripts: each reply is answered by a run that goes on from what was
// recorded; the request that follows is held against testdata/NAME.json. Written
// anew with -update.
func TestTranscripts(t *testing.T) {
	tests := []struct {
		name, model, thinking string
		again                 bool // a question of the user comes behind it
		reply                 http.HandlerFunc
	}{
		{"calls", "claude-sonnet-4-5", "", false, stream(text(0, "looking"), toolUse(1, "toolu_1", "x", `{"id":9007199254740993}`), toolUse(2, "toolu_2", "y", `{half`), end("tool_use"))},
		{"thinking", "claude-sonnet-4-5", "low", false, stream(thinking(0, "hm", signature), []string{`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzixLafPsnMdoOw0"}}`}, toolUse(2, "toolu_1", "x", `{}`), end("tool_use"))},
		{"thinking-between-calls", "claude-opus-4-6", "minimal", true, stream(text(0, "one"), toolUse(1, "toolu_1", "x", `{}`), thinking(2, "hm", signature), text(3, "two"), end("tool_use"))},
		{"thinking-that-was-redacted", "claude-sonnet-4-5", "low", false, stream(thinking(0, "the key is "+canary, signature), toolUse(1, "toolu_1", "x", `{}`), end("tool_use"))},
		{"thinking-off", "claude-sonnet-4-5", "off", true, stream(text(0, "42"), end("end_turn"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := wiretest.Serve(t, tt.reply)
			m := open(t, s, func(c *anthropic.Config) { c.Model, c.Thinking = tt.model, tt.thinking })
			r := ask("What is it?")
			r.Tools = []model.Spec{{Name: "x", Description: "Looks up.", Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer","maximum":9007199254740993}}}`)}, {Name: "y"}}
			r.Format = &model.Format{Name: "answer", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
			resp, e := call(t, m, r)
			if e != nil {
				t.Fatal(e)
			}
			msg := wiretest.Recorded(t, canary, 1, resp)
			r.Messages = append(r.Messages, msg)
			if len(msg.Calls) > 0 {
				res := wiretest.Results(msg)
				res.Results[0].Failed, res.Results[0].Text = true, ""
				r.Messages = append(r.Messages, res)
			}
			if tt.again {
				r.Messages = append(r.Messages, model.Message{Role: model.User, Text: "Are you sure?"})
			}
			for range 2 { // the second is whoever resumes the run
				if _, e := call(t, m, r); e != nil {
					t.Fatal(e)
				}
			}
			rs := s.Requests()
			if !bytes.Equal(rs[1].Bytes, rs[2].Bytes) {
				t.Error("the same transcript was sent in two forms")
			}
			if strings.Contains(string(rs[1].Bytes), canary) {
				t.Error("a secret went back")
			}
			published(t, rs[1].Bytes)
			wiretest.Golden(t, *update, tt.name, rs[1].Bytes)
		})
	}
}

// published holds a request against the SDK's types, which are made from the
// published description of the API: reading it into them and writing it again
// loses nothing.
func published(t *testing.T, body []byte) {
	t.Helper()
	var p sdk.MessageNewParams
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var sent, known map[string]any
	if json.Unmarshal(body, &sent) != nil || json.Unmarshal(again, &known) != nil {
		t.Fatal("no JSON")
	}
	delete(sent, "stream") // the SDK sets it beside the parameters
	tools(sent)
	tools(known)
	if d := cmp.Diff(sent, known); d != "" {
		t.Errorf("the API has no such request (-sent +known):\n%s", d)
	}
}

// tools takes the schemas out, which the SDK's types read as they like.
func tools(body map[string]any) {
	for _, x := range body["tools"].([]any) {
		delete(x.(map[string]any), "input_schema")
	}
	messages := body["messages"].([]any)
	for _, m := range messages {
		content, _ := m.(map[string]any)["content"].([]any)
		for _, b := range content {
			if b := b.(map[string]any); b["type"] == "tool_result" {
				delete(b, "content") // a text, or a list of one
			}
		}
	}
}

// TestThinking: how much a model is to think, as its generation is told; and no
// thinking where the API would refuse it.
func TestThinking(t *testing.T) {
	fromElsewhere := []model.Message{
		{Role: model.User, Text: "?"},
		{Role: model.Assistant, Calls: []model.Call{{ID: "t1.c0", Name: "x", Arguments: json.RawMessage(`{}`)}}, Blocks: []events.Block{{Kind: "reasoning", Text: "hm", Format: "openai/responses", Data: json.RawMessage(`{}`)}, {Kind: "call"}}},
		{Role: model.Tool, Results: []model.Result{{CallID: "t1.c0", Text: "ok"}}},
	}
	tests := []struct {
		name, model, thinking string
		max                   int
		messages              []model.Message
		want                  string
	}{
		{"nothing said", "claude-sonnet-4-5", "", 0, nil, `[null,null]`},
		{"a budget", "claude-3-7-sonnet-latest", "medium", 20000, nil, `[{"budget_tokens":8192,"type":"enabled"},null]`},
		{"a budget within the bound", "claude-opus-4-5-20251101", "high", 8000, nil, `[{"budget_tokens":4000,"type":"enabled"},null]`},
		{"no room for a budget", "claude-sonnet-4-5", "low", 1500, nil, `[{"type":"disabled"},null]`},
		{"an effort", "claude-opus-4-6", "high", 0, nil, `[{"type":"adaptive"},{"effort":"high"}]`},
		{"an effort of the next generation", "claude-sonnet-5", "minimal", 0, nil, `[{"type":"adaptive"},{"effort":"low"}]`},
		{"calls of another model, with a budget", "claude-sonnet-4-5", "low", 0, fromElsewhere, `[{"type":"disabled"},null]`},
		{"calls of another model, with an effort", "claude-opus-4-6", "low", 0, fromElsewhere, `[{"type":"adaptive"},{"effort":"low"}]`},
	}
	for _, tt := range tests {
		s := wiretest.Serve(t, wiretest.Refuse(500, ""))
		r := ask("hello")
		r.Thinking, r.MaxTokens = tt.thinking, tt.max
		if tt.messages != nil {
			r.Messages = tt.messages
		}
		_, _ = call(t, open(t, s, func(c *anthropic.Config) { c.Model = tt.model }), r)
		b := s.Requests()[0].Body
		if got, _ := json.Marshal([]any{b["thinking"], b["output_config"]}); string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestCacheMarks: at most three, where the next call finds them; none if they are
// not wanted.
func TestCacheMarks(t *testing.T) {
	r := ask("one")
	for i := range 5 {
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Text: "ok"}, model.Message{Role: model.User, Text: strings.Repeat("x", i+1)})
	}
	s := wiretest.Serve(t, wiretest.Refuse(500, ""))
	_, _ = call(t, open(t, s), r)
	if n := strings.Count(string(s.Requests()[0].Bytes), "ephemeral"); n != 3 {
		t.Errorf("%d marks", n)
	}
	_, _ = call(t, open(t, s, func(c *anthropic.Config) { c.NoCache = true }), r)
	if n := strings.Count(string(s.Requests()[1].Bytes), "ephemeral"); n != 0 {
		t.Errorf("%d marks that nobody wanted", n)
	}
}
