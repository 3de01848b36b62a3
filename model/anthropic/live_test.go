//go:build live

package anthropic_test

import (
	"os"
	"testing"

	"github.com/daybookhq/daybook/model/anthropic"
)

// TestLive runs against a real endpoint: ANTHROPIC_API_KEY, DAYBOOK_LIVE_BASE_URL
// and DAYBOOK_LIVE_MODEL say which. The base URL "self" is the server of these tests,
// so that what the tag guards can be tried without one.
func TestLive(t *testing.T) {
	cfg := anthropic.Config{BaseURL: os.Getenv("DAYBOOK_LIVE_BASE_URL"), Model: os.Getenv("DAYBOOK_LIVE_MODEL"), Key: os.Getenv("ANTHROPIC_API_KEY")}
	if cfg.Model == "" {
		cfg.Model = "claude-haiku-4-5"
	}
	switch {
	case cfg.BaseURL == "self":
		s := liveServer(t)
		cfg.BaseURL, cfg.Key = s.URL, canary
	case cfg.Key == "" && cfg.BaseURL == "":
		t.Fatal("set ANTHROPIC_API_KEY, or DAYBOOK_LIVE_BASE_URL (self is a server of these tests)")
	}
	liveSuite(t, cfg)
}
