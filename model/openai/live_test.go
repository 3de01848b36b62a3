//go:build live

package openai_test

import (
	"os"
	"testing"

	"github.com/daybookhq/daybook/model/openai"
)

// TestLive runs against a real endpoint: DAYBOOK_LIVE_API, DAYBOOK_LIVE_BASE_URL,
// DAYBOOK_LIVE_MODEL and OPENAI_API_KEY say which. The base URL "self" is the server
// of these tests, so that what the tag guards can be tried without one.
func TestLive(t *testing.T) {
	cfg := openai.Config{
		API: os.Getenv("DAYBOOK_LIVE_API"), BaseURL: os.Getenv("DAYBOOK_LIVE_BASE_URL"),
		Model: os.Getenv("DAYBOOK_LIVE_MODEL"), Key: os.Getenv("OPENAI_API_KEY"),
	}
	if cfg.Model == "" {
		cfg.Model = "gpt-5-mini"
	}
	switch {
	case cfg.BaseURL == "self":
		s := liveServer(t, cfg.API)
		cfg.BaseURL, cfg.Key = s.URL+"/v1", canary
	case cfg.Key == "" && cfg.BaseURL == "":
		t.Fatal("set OPENAI_API_KEY, or DAYBOOK_LIVE_BASE_URL (self is a server of these tests)")
	}
	liveSuite(t, cfg)
}
