package tools_test

import (
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

func TestStricterTrust(t *testing.T) {
	order := []tools.Trust{"", tools.External, tools.Own} // the least first
	for i, a := range order {
		for j, b := range order {
			if got := a.Stricter(b); got != order[min(i, j)] {
				t.Errorf("of %q and %q: %q", a, b, got)
			}
		}
	}
	if got := tools.Own.Stricter("some later kind"); got != "" {
		t.Errorf("of what nobody knows: %q", got)
	}
}

func TestStricterBinding(t *testing.T) {
	for _, tt := range []struct {
		name              string
		now, before, want events.ToolBinding
	}{
		{
			"a record of before trust was kept",
			events.ToolBinding{Effect: "readonly", Recovery: "none", Trust: "own", Pinned: true},
			events.ToolBinding{Effect: "readonly", Recovery: "none"},
			events.ToolBinding{Effect: "readonly", Recovery: "none", Trust: "own", Pinned: true},
		},
		{
			"looser now",
			events.ToolBinding{Effect: "readonly", Recovery: "keyed", Trust: "own", Pinned: true},
			events.ToolBinding{Effect: "destructive", Recovery: "none", Trust: "external"},
			events.ToolBinding{Effect: "destructive", Recovery: "none", Trust: "external"},
		},
		{
			"stricter now",
			events.ToolBinding{Effect: "idempotent", Recovery: "none", Trust: "unknown"},
			events.ToolBinding{Effect: "readonly", Recovery: "keyed", Trust: "own", Pinned: true},
			events.ToolBinding{Effect: "idempotent", Recovery: "none", Trust: "unknown"},
		},
		{
			"two kinds of recovery",
			events.ToolBinding{Effect: "destructive", Recovery: "keyed", Trust: "own"},
			events.ToolBinding{Effect: "destructive", Recovery: "probe", Trust: "unknown"},
			events.ToolBinding{Effect: "destructive", Recovery: "probe", Trust: "unknown"},
		},
	} {
		if got := tools.StricterBinding(tt.now, tt.before); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
