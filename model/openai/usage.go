package openai

import (
	"bytes"
	"encoding/json"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
)

// accounts is a server's account of usage, with the names of both formats and
// those that compatible servers add.
type accounts struct {
	raw json.RawMessage

	PromptTokens     *count `json:"prompt_tokens"`
	CompletionTokens *count `json:"completion_tokens"`
	InputTokens      *count `json:"input_tokens"`
	OutputTokens     *count `json:"output_tokens"`
	TotalTokens      int64  `json:"total_tokens"`

	PromptDetails     details `json:"prompt_tokens_details"`
	CompletionDetails details `json:"completion_tokens_details"`
	InputDetails      details `json:"input_tokens_details"`
	OutputDetails     details `json:"output_tokens_details"`

	// Of servers that count the cache elsewhere.
	PromptCacheHit count `json:"prompt_cache_hit_tokens"`
	CachedTokens   count `json:"cached_tokens"`
}

type details struct {
	Cached     count `json:"cached_tokens"`
	CacheWrite count `json:"cache_write_tokens"`
	Reasoning  count `json:"reasoning_tokens"`
}

// count is a number of tokens. What is none is -1, which makes an account one that
// nobody can go by; null is 0.
type count int64

// UnmarshalJSON implements [json.Unmarshaler].
func (c *count) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, ok := wire.Count(b)
	if !ok {
		n = -1
	}
	*c = count(n)
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler]: details in a form of their own are
// none, and take nothing away from the counts beside them.
func (d *details) UnmarshalJSON(b []byte) error {
	type plain details
	var p plain
	if json.Unmarshal(b, &p) == nil {
		*d = details(p)
	}
	return nil
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

func (a *accounts) input() *count {
	if a.InputTokens != nil {
		return a.InputTokens
	}
	return a.PromptTokens
}

func (a *accounts) output() *count {
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
		Input: int64(*a.input()), Output: int64(*a.output()),
		CacheRead:  first(a.PromptDetails.Cached, a.InputDetails.Cached, a.PromptCacheHit, a.CachedTokens),
		CacheWrite: first(a.PromptDetails.CacheWrite, a.InputDetails.CacheWrite),
		Reasoning:  first(a.CompletionDetails.Reasoning, a.OutputDetails.Reasoning),
	}
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 {
		return events.Usage{Missing: true}
	}
	// Some servers count reasoning in the total alone, and bill it as output.
	if beside := int64(a.TotalTokens) - u.Input - u.Output; beside > 0 {
		u.Output += beside
		if u.Reasoning == 0 {
			u.Reasoning = beside
		}
	}
	return model.Uncached(model.Inclusive, u)
}

func first(ns ...count) int64 {
	for _, n := range ns {
		if n != 0 {
			return int64(n)
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
