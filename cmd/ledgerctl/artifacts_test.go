package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// TestArtifactScripts runs testdata/artifacts/*.txtar on a ledger with three runs:
// one whose notes are accepted at their second revision, one whose notes never
// are, and one without any.
func TestArtifactScripts(t *testing.T) {
	filled := sync.OnceValues(func() ([]byte, error) {
		dir := t.TempDir()
		if err := fillWith(dir, sqlstore.Config{}, (*filler).artifacts); err != nil {
			return nil, err
		}
		return os.ReadFile(filepath.Join(dir, "ledger.db"))
	})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/artifacts", UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			b, err := filled()
			if err != nil {
				return err
			}
			e.Setenv("DAYBOOK_DIR", ".")
			return os.WriteFile(filepath.Join(e.WorkDir, "ledger.db"), b, 0o600)
		},
	})
}

func (f *filler) artifacts() {
	write := func() *holder { return f.take(f.submit(ledger.Submission{Agent: "writer"}), "w1", time.Minute) }
	h := write()
	h.judged(1, 0, "", "", "the answer is not JSON: invalid character 'H' looking for beginning of value")
	h.judged(2, 1, "{\n  \"title\": \"What is new\",\n  \"changes\": []\n}\n", "schema", "minItems: got 0, want 1")
	h.judged(3, 2, "{\n  \"title\": \"What is new\",\n  \"changes\": [\n    \"\x1b[31mred\"\n  ]\n}\n", "")
	h.finish(events.RunFinished{StoppedBy: events.StoppedByArtifactFinished, Output: json.RawMessage(`{"artifact":"notes"}`), Turns: 3},
		ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByArtifactFinished, Result: json.RawMessage(`{"artifact":"notes"}`)})
	h = write()
	h.judged(1, 0, "first\n", "words", "too short")
	h.note(events.ArtifactValidationFinished{Turn: 2, Artifact: "notes", Revision: 1, Error: &events.ErrorInfo{Kind: "validator", Message: `validator "words": it panicked: oh`}})
	h.finish(events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{Kind: "validator", Message: "it panicked"}, Turns: 2},
		ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "it panicked"})
	h = write()
	h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent}, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent})
}

// judged is a turn whose answer is judged: refused with an issue, else accepted.
func (h *holder) judged(turn, revision int, content, validator string, issues ...string) {
	h.note(events.TurnStarted{Turn: turn})
	h.note(events.ArtifactValidationStarted{Turn: turn, Artifact: "notes", Revision: revision, Parser: "json", Validators: []string{"schema", "words"}})
	p := events.ArtifactValidationFinished{Turn: turn, Artifact: "notes", Revision: revision, OK: len(issues) == 0, Validator: validator, Bytes: int64(len(content))}
	for _, i := range issues {
		p.Issues = append(p.Issues, events.ArtifactIssue{Message: i})
	}
	if content != "" {
		var err error
		p.Content, err = h.f.st.PutBlob(h.f.ctx, h.run.Tenant, "application/json", []byte(content))
		h.f.check(err)
	}
	h.note(p)
	if p.OK {
		h.note(events.ArtifactFinished{Name: "notes", Revision: revision, Content: p.Content, Bytes: p.Bytes})
	} else {
		h.note(events.ArtifactRevisionStarted{Turn: turn, Artifact: "notes", Revision: revision + 1, Repairer: "issues", Input: "again"})
	}
}
