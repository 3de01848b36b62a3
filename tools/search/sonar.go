package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/daybookhq/daybook/tools/netguard"
)

// SonarOptions configure [Sonar].
type SonarOptions struct {
	APIKey string // required
	// Domains such as "example.com": results come from these alone.
	Domains []string
	// BaseURL is https://api.perplexity.ai if empty.
	BaseURL string
	Net     netguard.Net
}

// sonarTime is what its deepest search may take.
const sonarTime = 10 * time.Minute

// Sonar returns Perplexity, which searches and writes the answer itself.
func Sonar(o SonarOptions) (Searcher, error) {
	if o.APIKey == "" {
		return nil, errors.New("sonar: a key is required")
	}
	s, err := netguard.NewService(netguard.ServiceConfig{
		Name: "sonar", BaseURL: cmp.Or(o.BaseURL, "https://api.perplexity.ai"), Net: o.Net,
		Header: http.Header{"Authorization": {"Bearer " + o.APIKey}},
		Limits: netguard.Limits{Total: sonarTime, Idle: sonarTime}, // it is silent while it thinks
	})
	if err != nil {
		return nil, err
	}
	return &sonar{s, slices.Clone(o.Domains)}, nil
}

type sonar struct {
	service *netguard.Service
	domains []string
}

func (*sonar) Name() string { return "sonar" }

var sonarModels = map[Depth]string{Quick: "sonar", Pro: "sonar-pro", Deep: "sonar-deep-research"}

type sonarRequest struct {
	Model    string         `json:"model"`
	Messages []sonarMessage `json:"messages"`
	Recency  Recency        `json:"search_recency_filter,omitempty"`
	Domains  []string       `json:"search_domain_filter,omitempty"`
}

type sonarMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type sonarAnswer struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string       `json:"finish_reason"`
		Message      sonarMessage `json:"message"`
	} `json:"choices"`
	Citations     []string `json:"citations"`
	SearchResults []Hit    `json:"search_results"`
	Usage         struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Reasoning  int64 `json:"reasoning_tokens"`
		Cost       struct {
			Total json.Number `json:"total_cost"`
		} `json:"cost"`
	} `json:"usage"`
}

func (s *sonar) Search(ctx context.Context, q Query) (Result, error) {
	var a sonarAnswer
	err := s.service.Post(ctx, "/chat/completions", sonarRequest{
		Model: sonarModels[q.Depth], Messages: []sonarMessage{{"user", q.Text}}, Recency: q.Recency, Domains: s.domains,
	}, &a)
	if err != nil {
		return Result{}, err
	}
	if len(a.Choices) == 0 || a.Choices[0].Message.Content == "" {
		return Result{}, errors.New("sonar answered something unreadable")
	}
	r := Result{
		Answer: a.Choices[0].Message.Content, Results: a.SearchResults, Model: cmp.Or(a.Model, sonarModels[q.Depth]),
		Truncated: a.Choices[0].FinishReason == "length", Domains: s.domains,
		Usage: Usage{Input: a.Usage.Prompt, Output: a.Usage.Completion, Reasoning: a.Usage.Reasoning},
	}
	if r.Results == nil { // older answers have links alone
		for _, u := range a.Citations {
			r.Results = append(r.Results, Hit{URL: u})
		}
	}
	if micro, ok := netguard.MicroUSD(a.Usage.Cost.Total); ok {
		r.CostMicroUSD = &micro
	}
	return r, nil
}
