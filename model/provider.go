package model

import (
	"net/url"
	"strings"
)

// Provider says whom a client asks, in the words of OpenTelemetry's conventions for
// generative AI.
type Provider struct {
	// Name is the provider's, as far as the client knows: openai, anthropic,
	// azure.ai.openai, …; a server that nobody knows and that speaks a provider's
	// format counts as that provider. Empty = not known.
	Name string
	// Server is the host that is asked, where that is not the provider's own; empty = it is.
	Server string
}

// Provided is a [Model] that knows whom it asks.
type Provided interface {
	Model
	Provider() Provider
}

// ProviderOf says whom a model asks, at one endpoint of a pool; the zero value where
// the model does not say.
func ProviderOf(m Model, endpoint string) Provider {
	if p, ok := m.(*Pool); ok {
		e := p.find(endpoint)
		if e == nil {
			return Provider{}
		}
		m = e.Model
	}
	if p, ok := m.(Provided); ok {
		return p.Provider()
	}
	return Provider{}
}

// knownHosts are providers by the ends of their hosts' names.
var knownHosts = []struct{ host, provider string }{
	{"api.openai.com", "openai"},
	{"api.anthropic.com", "anthropic"},
	{"openai.azure.com", "azure.ai.openai"},
	{"cognitiveservices.azure.com", "azure.ai.openai"},
	{"services.ai.azure.com", "azure.ai.inference"},
	{"models.ai.azure.com", "azure.ai.inference"},
	{"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"generativelanguage.googleapis.com", "gcp.gemini"},
	{"api.cohere.ai", "cohere"},
	{"api.cohere.com", "cohere"},
	{"api.deepseek.com", "deepseek"},
	{"api.groq.com", "groq"},
	{"api.mistral.ai", "mistral_ai"},
	{"api.perplexity.ai", "perplexity"},
	{"api.x.ai", "x_ai"},
	{"ml.cloud.ibm.com", "ibm.watsonx.ai"},
}

// ProviderAt is the provider that answers at a base URL in the format of another; an
// empty URL is that one's own.
func ProviderAt(baseURL, format string) Provider {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return Provider{Name: format}
	}
	host := strings.ToLower(u.Hostname())
	p := Provider{Name: format, Server: host}
	for _, k := range knownHosts {
		if host == k.host || strings.HasSuffix(host, "."+k.host) || strings.HasSuffix(host, "-"+k.host) {
			p.Name = k.provider
		}
	}
	if strings.HasPrefix(host, "bedrock") && strings.HasSuffix(host, ".amazonaws.com") {
		p.Name = "aws.bedrock"
	}
	return p
}
