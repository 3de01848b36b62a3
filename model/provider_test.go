package model_test

import (
	"testing"

	"github.com/daybookhq/daybook/model"
)

func TestProviderAt(t *testing.T) {
	for url, want := range map[string]model.Provider{
		"":                               {Name: "openai"},
		"https://api.openai.com/v1":      {Name: "openai", Server: "api.openai.com"},
		"https://EU.api.openai.com/v1":   {Name: "openai", Server: "eu.api.openai.com"},
		"https://shop.openai.azure.com/": {Name: "azure.ai.openai", Server: "shop.openai.azure.com"},
		"https://api.groq.com/openai/v1": {Name: "groq", Server: "api.groq.com"},
		"https://europe-west1-aiplatform.googleapis.com":      {Name: "gcp.vertex_ai", Server: "europe-west1-aiplatform.googleapis.com"},
		"https://bedrock-runtime.eu-west-1.amazonaws.com/v1":  {Name: "aws.bedrock", Server: "bedrock-runtime.eu-west-1.amazonaws.com"},
		"http://user:pass@models.shop.internal:8080/v1?key=x": {Name: "openai", Server: "models.shop.internal"},
		"https://api.groq.com.evil.example/v1":                {Name: "openai", Server: "api.groq.com.evil.example"},
		"http://[::1]:8080/v1":                                {Name: "openai", Server: "::1"},
	} {
		if got := model.ProviderAt(url, "openai"); got != want {
			t.Errorf("%q: %+v, want %+v", url, got, want)
		}
	}
}
