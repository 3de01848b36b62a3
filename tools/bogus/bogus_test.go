package bogus_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/toolstest"
)

var calls = map[string]string{
	"my_notes":    `{"topic":"wifi"}`,
	"feed_cat":    `{"portion":"small"}`,
	"order_pizza": `{"pizza":"quattro","size":"large"}`,
}

func TestToolsConform(t *testing.T) {
	for _, tool := range bogus.Tools() {
		name := tool.Definition().Name
		t.Run(name, func(t *testing.T) {
			toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: json.RawMessage(calls[name])})
		})
	}
}

// SG-34, SG-36, SG-38: every reply is the same each time and carries a receipt.
func TestRepliesAreDeterministicAndCarryAReceipt(t *testing.T) {
	for _, tool := range bogus.Tools() {
		name := tool.Definition().Name
		want := regexp.MustCompile(`"receipt":"bogus-` + name + `-[0-9a-f]{6}"`)
		var first string
		for range 3 {
			d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(calls[name])})
			if !want.MatchString(d.Result.Output) {
				t.Errorf("%s: output %s has no receipt", name, d.Result.Output)
			}
			if first == "" {
				first = d.Result.Output
			}
			if d.Result.Output != first {
				t.Errorf("%s: output %s, before it was %s", name, d.Result.Output, first)
			}
		}
	}
}

// SG-37.
func TestReceipt(t *testing.T) {
	if a, b := bogus.Receipt("my_notes", "wifi"), bogus.Receipt("my_notes", "wifi"); a != b {
		t.Errorf("Receipt = %s, then %s", a, b)
	}
	if a, b := bogus.Receipt("my_notes", "wifi"), bogus.Receipt("my_notes", "trip"); a == b {
		t.Errorf("two keys have the same receipt %s", a)
	}
	if a, b := bogus.Receipt("a", "bc"), bogus.Receipt("ab", "c"); a[len(a)-6:] == b[len(b)-6:] {
		t.Errorf("two splits have the same digits: %s %s", a, b)
	}
}

// SG-39, SG-47, SG-48, SG-51: effects as declared, and none left out.
func TestEffects(t *testing.T) {
	want := map[string]tools.Effect{"my_notes": tools.Readonly, "feed_cat": tools.Idempotent, "order_pizza": tools.Destructive}
	for _, tool := range bogus.Tools() {
		if d := tool.Definition(); d.Effect != want[d.Name] {
			t.Errorf("%s: effect %q, want %q", d.Name, d.Effect, want[d.Name])
		}
	}
}
