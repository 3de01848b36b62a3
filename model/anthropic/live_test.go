//go:build live

package anthropic_test

import (
	"os"
	"testing"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/anthropic"
	"github.com/daybookhq/daybook/model/modeltest"
)

// TestLive runs against a real endpoint: ANTHROPIC_API_KEY, DAYBOOK_LIVE_BASE_URL
// and DAYBOOK_LIVE_MODEL say which.
func TestLive(t *testing.T) {
	cfg := anthropic.Config{BaseURL: os.Getenv("DAYBOOK_LIVE_BASE_URL"), Model: os.Getenv("DAYBOOK_LIVE_MODEL"), Key: os.Getenv("ANTHROPIC_API_KEY")}
	if cfg.Model == "" {
		cfg.Model = "claude-haiku-4-5"
	}
	if cfg.Key == "" && cfg.BaseURL == "" {
		t.Fatal("set ANTHROPIC_API_KEY, or DAYBOOK_LIVE_BASE_URL")
	}
	modeltest.TestModel(t, func(t *testing.T) model.Model {
		m, err := anthropic.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, modeltest.Features{})
}
