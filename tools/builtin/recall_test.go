package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// record answers with the same text for every turn it is asked for.
type record struct {
	text string
	err  error
}

func (r record) Recall(_ context.Context, ids []string) ([]tools.Recalled, error) {
	var out []tools.Recalled
	for _, id := range ids {
		out = append(out, tools.Recalled{ID: id, Text: r.text})
	}
	return out, r.err
}

func TestRecallTurnsConforms(t *testing.T) {
	toolstest.TestTool(t, builtin.RecallTurns(), toolstest.ToolCase{ValidArguments: json.RawMessage(`{"ids":"t1"}`), Recaller: record{text: "agent: hello"}})
}

func TestRecallTurns(t *testing.T) {
	long := strings.Repeat("ä", 40_000)
	for _, tt := range []struct {
		name, args string
		r          tools.Recaller
		want       string
	}{
		{"two turns", `{"ids":"t3, t12"}`, record{text: "x"}, "t3:\nx\n\nt12:\nx"},
		{"none such", `{"ids":"t3"}`, record{}, "t3:\n(there is no such turn)"},
		{"no id", `{"ids":"turn3"}`, record{}, `"turn3" is no id of a turn`},
		{"none", `{"ids":" "}`, record{}, "ask for 1 to 8 turns"},
		{"too many", `{"ids":"t1 t2 t3 t4 t5 t6 t7 t8 t9"}`, record{}, "ask for 1 to 8 turns"},
		{"long ones share what there is", `{"ids":"t1,t2"}`, record{text: long}, "bytes)\n\nt2:"},
		{"the record is away", `{"ids":"t1"}`, record{err: errors.New("no database")}, "no database"},
		{"nobody can", `{"ids":"t1"}`, nil, "cannot be recalled here"},
	} {
		_, es := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.RecallTurns(), Arguments: json.RawMessage(tt.args), Recaller: tt.r})
		b, _ := json.Marshal(es[len(es)-1])
		var said struct{ Result events.ToolResult }
		_ = json.Unmarshal(b, &said)
		if got := said.Result.Output + said.Result.Error; !strings.Contains(got, tt.want) || len(got) > 49<<10 {
			t.Errorf("%s: %d bytes: %.200s", tt.name, len(got), got)
		}
	}
}
