package providers_test

import (
	"testing"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/anthropic"
	"github.com/daybookhq/daybook/model/openai"
)

// The models that ship say whom they ask, each endpoint of a pool for itself.
func TestProviderOf(t *testing.T) {
	chat, err := openai.New(openai.Config{API: openai.Chat, BaseURL: "https://api.mistral.ai/v1"})
	if err != nil {
		t.Fatal(err)
	}
	claude, err := anthropic.New(anthropic.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := model.NewPool(nil, model.Endpoint{Name: "a", Model: chat}, model.Endpoint{Name: "b", Model: claude})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		m        model.Model
		endpoint string
		want     string
	}{{chat, "", "mistral_ai"}, {claude, "", "anthropic"}, {pool, "a", "mistral_ai"}, {pool, "b", "anthropic"}, {pool, "c", ""}} {
		if got := model.ProviderOf(tt.m, tt.endpoint).Name; got != tt.want {
			t.Errorf("%T %q: %q, want %q", tt.m, tt.endpoint, got, tt.want)
		}
	}
}
