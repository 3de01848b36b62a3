package wiretest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

// Recorded is what becomes of an answer on its way into the transcript: it is
// redacted, stored, read and folded. So does whoever resumes the run.
func Recorded(t testing.TB, secret string, turn int, r model.Response) model.Message {
	t.Helper()
	red := redact.New(redact.Config{})
	if err := red.Register("provider", secret); err != nil {
		t.Fatal(err)
	}
	data, err := red.JSON(events.ModelCallFinished{Turn: turn, Attempt: 1, Text: r.Text, ToolCalls: r.Calls, Blocks: r.Blocks, RawUsage: r.RawUsage}, "/blocks/*/data")
	if err != nil {
		t.Fatal(err)
	}
	p, err := events.DecodePayload("model_call_finished", 1, data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	e := p.(events.ModelCallFinished)
	m := model.Message{Role: model.Assistant, Text: e.Text, Blocks: e.Blocks}
	for i, c := range e.ToolCalls {
		m.Calls = append(m.Calls, model.Call{ID: events.CallID{Turn: turn, Index: i}.String(), Name: c.Name, Arguments: c.Arguments})
	}
	return m
}

// Results answer the calls of a message.
func Results(m model.Message) model.Message {
	out := model.Message{Role: model.Tool}
	for _, c := range m.Calls {
		out.Results = append(out.Results, model.Result{CallID: c.ID, Name: c.Name, Text: "ok " + c.Name})
	}
	return out
}

// Golden holds a request against testdata/NAME.json, which update writes anew.
func Golden(t testing.TB, update bool, name string, body []byte) {
	t.Helper()
	var buf bytes.Buffer
	if err := json.Indent(&buf, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	buf.WriteByte('\n')
	path := filepath.Join("testdata", name+".json")
	if update {
		if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), buf.String()); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}
