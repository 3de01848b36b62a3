package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/toolstest"
)

type skills map[string]tools.SkillText

func (s skills) Skill(_ context.Context, name string) (tools.SkillText, error) {
	if t, ok := s[name]; ok {
		return t, nil
	}
	return tools.SkillText{}, fmt.Errorf("there is no skill %q", name)
}

// A skill is loaded whole, and is as trusted as where it comes from; nobody knows of
// one that does not say.
func TestLoadSkill(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	all := skills{"own": {Text: "A", Trust: tools.Own}, "foreign": {Text: "B", Trust: tools.External}, "odd": {Text: "C"}, "long": {Text: long, Trust: tools.Own}}
	for _, tt := range []struct{ name, want, trust, fault string }{
		{"own", "A", "own", ""},
		{"foreign", "B", "external", ""},
		{"odd", "C", "external", ""},
		{"long", long, "own", ""},
		{"none", "", "own", `there is no skill "none"`},
	} {
		d, es := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.LoadSkill(), Arguments: json.RawMessage(`{"name":"` + tt.name + `"}`), Skills: all})
		if d.Result.Output != tt.want || d.Result.Trust != tt.trust || !strings.Contains(d.Result.Error, tt.fault) || (d.Result.Error == "") != (tt.fault == "") {
			t.Errorf("%s: %.100q trust %q error %q", tt.name, d.Result.Output, d.Result.Trust, d.Result.Error)
		}
		if s := es[0].(events.ToolExecutionStarted); s.Effect != "readonly" {
			t.Errorf("%s: recorded %+v", tt.name, s)
		}
	}
	if d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.LoadSkill(), Arguments: json.RawMessage(`{"name":"own"}`)}); !strings.Contains(d.Result.Error, "no skills here") {
		t.Errorf("without skills: %+v", d.Result)
	}
}
