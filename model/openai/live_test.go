//go:build live

package openai_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wiretest"
	"github.com/daybookhq/daybook/model/modeltest"
	"github.com/daybookhq/daybook/model/openai"
)

// TestLive runs against a real endpoint: DAYBOOK_LIVE_API, DAYBOOK_LIVE_BASE_URL,
// DAYBOOK_LIVE_MODEL and OPENAI_API_KEY say which.
func TestLive(t *testing.T) {
	cfg := openai.Config{
		API: os.Getenv("DAYBOOK_LIVE_API"), BaseURL: os.Getenv("DAYBOOK_LIVE_BASE_URL"),
		Model: os.Getenv("DAYBOOK_LIVE_MODEL"), Key: os.Getenv("OPENAI_API_KEY"),
	}
	if cfg.Model == "" {
		cfg.Model = "gpt-5-mini"
	}
	if cfg.Key == "" && cfg.BaseURL == "" {
		t.Fatal("set OPENAI_API_KEY, or DAYBOOK_LIVE_BASE_URL")
	}
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
