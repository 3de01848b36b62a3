package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// scratch is a sandbox that answers as told.
type scratch func(sandbox.Program) (sandbox.Output, error)

func (s scratch) Execute(_ context.Context, p sandbox.Program) (sandbox.Output, error) { return s(p) }

func TestCodeExec(t *testing.T) {
	cost := int64(250)
	var got sandbox.Program
	answer, fault := sandbox.Output{OK: true, Stdout: "42\n", CostMicroUSD: &cost}, error(nil)
	tool := builtin.CodeExec(scratch(func(p sandbox.Program) (sandbox.Output, error) { got = p; return answer, fault }),
		builtin.CodeExecConfig{Language: "python", Timeout: 3 * time.Second})
	run := func(t *testing.T) tools.Disposition {
		t.Helper()
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(`{"code":"print(42)"}`)})
		return d
	}
	t.Run("SG-76 it returns what the program printed, and the price", func(t *testing.T) {
		d := run(t)
		if d.Result.Output != `{"ok":true,"stdout":"42\n"}` || d.Result.Cost == nil || *d.Result.Cost != 250*events.MicroUSD {
			t.Errorf("%+v", d.Result)
		}
		if got != (sandbox.Program{Code: "print(42)", Language: "python", Timeout: 3 * time.Second}) {
			t.Errorf("the sandbox got %+v", got)
		}
	})
	t.Run("SG-76 its effect is not known", func(t *testing.T) {
		if e := tool.Definition().Effect; e != "" || !tool.Definition().IsDestructive() {
			t.Errorf("effect %q", e)
		}
		bus, err := tools.NewBus([]tools.Tool{builtin.Calculate(), tool}, tools.BusConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if got := bus.Unannotated(); len(got) != 1 || got[0] != "code_exec" || len(bus.Destructive()) != 0 {
			t.Errorf("unannotated %q, destructive %q", got, bus.Destructive())
		}
	})
	t.Run("SG-76 there is no default sandbox", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("there is")
			}
		}()
		builtin.CodeExec(nil, builtin.CodeExecConfig{})
	})
	t.Run("SG-77 a failed program is a result", func(t *testing.T) {
		answer = sandbox.Output{Stderr: "NameError\xff"}
		if d := run(t); d.Result.Status != tools.Completed || d.Result.Output != "{\"ok\":false,\"stdout\":\"\",\"stderr\":\"NameError\uFFFD\"}" || d.Result.Cost != nil {
			t.Errorf("%+v", d.Result)
		}
	})
	t.Run("SG-77 a sandbox that cannot work is an error", func(t *testing.T) {
		fault = tools.NoEffect(errors.New("no machine is free"))
		if d := run(t); d.Result.Error != "no machine is free" {
			t.Errorf("%+v", d)
		}
	})
	fault = nil
	toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"code":"1"}`), Hostile: true})
}
