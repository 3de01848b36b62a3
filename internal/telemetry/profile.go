package telemetry

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/internal/trace"
)

// profile adds the keys of viewers that read others than the conventions'.
type profile struct{ openInference, langfuse bool }

func readProfile(v string) (p profile, err error) {
	for _, name := range strings.Split(v, ",") {
		switch strings.TrimSpace(name) {
		case "":
		case "openinference":
			p.openInference = true
		case "langfuse":
			p.langfuse = true
		default:
			return profile{}, fmt.Errorf("%w: %s=%q: want openinference, langfuse, or both with a comma", ErrSettings, EnvProfile, v)
		}
	}
	return p, nil
}

// attrs are the keys that the profile adds to a span. What a model call used and
// cost stands on its span alone, as everywhere.
func (p profile) attrs(s *trace.Span) (as []trace.Attr) {
	op, _ := s.Attr(trace.OperationName).(string)
	session, _ := s.Attr(trace.ConversationID).(string)
	owner, _ := s.Attr(trace.Owner).(string)
	usd, priced := dollars(s)
	if p.openInference {
		kind := map[string]string{trace.InvokeAgent: "AGENT", trace.Chat: "LLM", trace.ExecuteTool: "TOOL"}[op]
		if kind == "" {
			kind = "CHAIN"
		}
		as = append(as, trace.Attr{Key: "openinference.span.kind", Value: kind})
		as = appendText(as, "session.id", session)
		as = appendText(as, "user.id", owner)
		if op == trace.Chat {
			as = copied(as, s, "llm.model_name", trace.ResponseModel)
			as = copied(as, s, "llm.token_count.prompt", trace.InputTokens)
			as = copied(as, s, "llm.token_count.completion", trace.OutputTokens)
			as = copied(as, s, "llm.token_count.prompt_details.cache_read", trace.CacheReadTokens)
			if priced {
				as = append(as, trace.Attr{Key: "llm.cost.total", Value: usd})
			}
		}
		if op == trace.ExecuteTool {
			as = copied(as, s, "tool.name", trace.ToolName)
		}
	}
	if p.langfuse {
		as = appendText(as, "langfuse.session.id", session)
		as = appendText(as, "langfuse.user.id", owner)
		switch op {
		case trace.InvokeAgent:
			as = append(as, trace.Attr{Key: "langfuse.observation.type", Value: "agent"})
			as = appendText(as, "langfuse.trace.name", s.Name)
		case trace.Chat:
			as = append(as, trace.Attr{Key: "langfuse.observation.type", Value: "generation"})
			if priced {
				as = append(as, trace.Attr{Key: "langfuse.observation.cost_details", Value: fmt.Sprintf(`{"total":%s}`, s.Attr(trace.Cost))})
			}
		case trace.ExecuteTool:
			as = append(as, trace.Attr{Key: "langfuse.observation.type", Value: "tool"})
		}
	}
	return as
}

// dollars is a cost as the number that viewers sum up; ours is the decimal beside it.
func dollars(s *trace.Span) (float64, bool) {
	text, ok := s.Attr(trace.Cost).(string)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

func appendText(as []trace.Attr, key, v string) []trace.Attr {
	if v == "" {
		return as
	}
	return append(as, trace.Attr{Key: key, Value: v})
}

func copied(as []trace.Attr, s *trace.Span, key, from string) []trace.Attr {
	if v := s.Attr(from); v != nil {
		as = append(as, trace.Attr{Key: key, Value: v})
	}
	return as
}
