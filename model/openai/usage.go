package openai

import (
	"bytes"
	"encoding/json"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// accounts is a server's account of usage, with the names of both formats and
// those that compatible servers add.
type accounts struct {
	raw json.RawMessage

	PromptTokens     *int64 `json:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens"`
	InputTokens      *int64 `json:"input_tokens"`
	OutputTokens     *int64 `json:"output_tokens"`
	TotalTokens      int64  `json:"total_tokens"`

	PromptDetails     details `json:"prompt_tokens_details"`
	CompletionDetails details `json:"completion_tokens_details"`
	InputDetails      details `json:"input_tokens_details"`
	OutputDetails     details `json:"output_tokens_details"`

	// Of servers that count the cache elsewhere.
	PromptCacheHit int64 `json:"prompt_cache_hit_tokens"`
	CachedTokens   int64 `json:"cached_tokens"`
}

type details struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

// account reads a usage object; nil if there is none that says anything.
func account(raw json.RawMessage) *accounts {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	a := &accounts{raw: bytes.Clone(raw)}
	if json.Unmarshal(raw, a) != nil || a.input() == nil && a.output() == nil {
		return nil
	}
	return a
}

func (a *accounts) input() *int64 {
	if a.InputTokens != nil {
		return a.InputTokens
	}
	return a.PromptTokens
}

func (a *accounts) output() *int64 {
	if a.OutputTokens != nil {
		return a.OutputTokens
	}
	return a.CompletionTokens
}

// usage is what was billed. Nil is no account, which is not zero; so is one that
// counts only one side, or below zero.
func (a *accounts) usage() events.Usage {
	if a == nil || a.input() == nil || a.output() == nil {
		return events.Usage{Missing: true}
	}
	u := events.Usage{
		Input: *a.input(), Output: *a.output(),
		CacheRead:  first(a.PromptDetails.Cached, a.InputDetails.Cached, a.PromptCacheHit, a.CachedTokens),
		CacheWrite: first(a.PromptDetails.CacheWrite, a.InputDetails.CacheWrite),
		Reasoning:  first(a.CompletionDetails.Reasoning, a.OutputDetails.Reasoning),
	}
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 {
		return events.Usage{Missing: true}
	}
	// Some servers count reasoning in the total alone, and bill it as output.
	if beside := a.TotalTokens - u.Input - u.Output; beside > 0 {
		u.Output += beside
		if u.Reasoning == 0 {
			u.Reasoning = beside
		}
	}
	return model.Uncached(model.Inclusive, u)
}

func first(ns ...int64) int64 {
	for _, n := range ns {
		if n != 0 {
			return n
		}
	}
	return 0
}

// spent is what is known to be billed; nil = nothing.
func (a *accounts) spent() *events.Usage {
	if a == nil {
		return nil
	}
	u := a.usage()
	return &u
}
