package model_test

import (
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// SE-64: input is uncached tokens, whoever counted; the rest is not touched, and
// neither are counts that need no change.
func TestUncached(t *testing.T) {
	tests := []struct {
		name   string
		family model.Family
		in     events.Usage
		want   int64
	}{
		{"cached tokens among the input", model.Inclusive, events.Usage{Input: 100, CacheRead: 60, CacheWrite: 5, Output: 7, Reasoning: 3}, 35},
		{"cached tokens beside it", model.Exclusive, events.Usage{Input: 100, CacheRead: 60, CacheWrite: 5, Output: 7}, 100},
		{"all of it cached", model.Inclusive, events.Usage{Input: 60, CacheRead: 60}, 0},
		{"nothing cached", model.Inclusive, events.Usage{Input: 100, Output: 7}, 100},
		{"more cached than input: it cannot be among it", model.Inclusive, events.Usage{Input: 10, CacheRead: 60}, 10},
		{"missing", model.Inclusive, events.Usage{Input: 10, CacheRead: 5, Missing: true}, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.in
			want.Input = tt.want
			if got := model.Uncached(tt.family, tt.in); got != want {
				t.Errorf("Uncached = %+v, want %+v", got, want)
			}
		})
	}
	if model.FamilyOf("anthropic/Claude-Opus-4.5") != model.Exclusive || model.FamilyOf("gpt-5") != model.Inclusive {
		t.Error("families are mixed up")
	}
}
