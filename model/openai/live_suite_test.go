package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wiretest"
	"github.com/daybookhq/daybook/model/modeltest"
	"github.com/daybookhq/daybook/model/openai"
)

// liveSuite is what is run against real endpoints, and against ours.
func liveSuite(t *testing.T, cfg openai.Config) {
	open := func(t *testing.T) model.Model {
		m, err := openai.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	modeltest.TestModel(t, open, modeltest.Features{})
	t.Run("a conversation with a tool", func(t *testing.T) {
		m := open(t)
		r := ask("What does the tool x say about number 7? Call it, then answer with its word alone.")
		r.Tools = []model.Spec{{Name: "x", Description: "Says a word about a number.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}}
		resp, e := call(t, m, r)
		if e != nil || len(resp.Calls) == 0 {
			t.Fatalf("%+v, %v", resp, e)
		}
		msg := wiretest.Recorded(t, cfg.Key+"-none-", 1, resp)
		res := wiretest.Results(msg)
		res.Results[0].Text = "heptagon"
		r.Messages = append(r.Messages, msg, res)
		if resp, e = call(t, m, r); e != nil || !strings.Contains(strings.ToLower(resp.Text), "heptagon") {
			t.Errorf("%+v, %v", resp, e)
		}
	})
}

// liveServer says hello, calls the tool x once, and says what that said.
func liveServer(t *testing.T, api string) server {
	var s server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		rs := s.Requests()
		last := string(rs[len(rs)-1].Bytes)
		text := "hello"
		if strings.Contains(last, "heptagon") {
			text = "Heptagon"
		}
		called := text == "hello" && strings.Contains(last, "number 7")
		switch {
		case api == openai.Chat && called:
			sse(chatCalls(`{"index":0,"id":"call_1","type":"function","function":{"name":"x","arguments":"{\"n\":7}"}}`), chatStop("tool_calls"), chatUsage, done)(w, r)
		case api == openai.Chat:
			sse(chatText(text), chatStop("stop"), chatUsage, done)(w, r)
		case called:
			sse(responsesDone(`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"x","arguments":"{\"n\":7}","status":"completed"}`))(w, r)
		default:
			sse(fmt.Sprintf(`{"type":"response.output_text.delta","output_index":0,"delta":%q}`, text), responsesDone(responsesText(text)))(w, r)
		}
	})
	return s
}

// What the tag "live" guards passes here, so that it is known to run where a key is.
func TestLiveSuiteOnOurServer(t *testing.T) {
	for _, api := range []string{openai.Chat, openai.Responses} {
		t.Run(api, func(t *testing.T) {
			s := liveServer(t, api)
			liveSuite(t, openai.Config{API: api, BaseURL: s.URL + "/v1", Key: canary, Model: "m-1", Transport: wiretest.Transport(t)})
		})
	}
}
