package anthropic_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/anthropic"
	"github.com/daybookhq/daybook/model/internal/wiretest"
	"github.com/daybookhq/daybook/model/modeltest"
)

// liveSuite is what is run against real endpoints, and against ours.
func liveSuite(t *testing.T, cfg anthropic.Config) {
	open := func(t *testing.T) model.Model {
		m, err := anthropic.New(cfg)
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
func liveServer(t *testing.T) *wiretest.Server {
	var s *wiretest.Server
	s = wiretest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		rs := s.Requests()
		switch last := string(rs[len(rs)-1].Bytes); {
		case strings.Contains(last, "heptagon"):
			stream(text(0, "Hept", "agon"), end("end_turn"))(w, r)
		case strings.Contains(last, "number 7"):
			stream(toolUse(0, "toolu_1", "x", `{"n":`, `7}`), end("tool_use"))(w, r)
		default:
			stream(text(0, "hel", "lo"), end("end_turn"))(w, r)
		}
	})
	return s
}

// What the tag "live" guards passes here, so that it is known to run where a key is.
func TestLiveSuiteOnOurServer(t *testing.T) {
	s := liveServer(t)
	liveSuite(t, anthropic.Config{BaseURL: s.URL, Key: canary, Model: "claude-haiku-4-5", Transport: wiretest.Transport(t)})
}
