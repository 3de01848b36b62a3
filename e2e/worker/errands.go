//go:build daybook_faults

package main

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/memory"
)

// errandTools let a run wait for others.
func errandTools() []tools.Tool {
	return []tools.Tool{builtin.Delegate("leaf"), builtin.WaitForSignal(time.Hour)}
}

// errandCallbacks judge what is written.
func errandCallbacks() revise.Callbacks {
	return revise.Callbacks{Validators: map[string]revise.Validator{"second": func(_ context.Context, _ revise.Context, value any) (revise.Verdict, error) {
		return revise.Verdict{OK: value == "a second draft", Issues: []events.ArtifactIssue{{Message: "once more"}}}, nil
	}}}
}

// memoryTools are fenced by the owner of each run, and keep what they are told in
// the ledger's database.
func memoryTools(st *sqlstore.Store, red *redact.Redactor) ([]tools.Tool, error) {
	store, err := memorydb.New(st.DB(), memorydb.Config{Redactor: red})
	if err != nil {
		return nil, err
	}
	m, err := memory.New(memory.Options{Client: store, Root: func(inv *tools.Invocation) string { return "user:" + inv.Owner }, Redactor: red})
	if err != nil {
		return nil, err
	}
	return m.Tools(), nil
}

// errandAgents wait for a child run and a signal, end at once, and fail always.
var errandAgents = map[string]string{
	"errands": `---
name: errands
description: Delegates, waits for a signal, ends.
model: scripted/errands
loop: singleshot
tools: [delegate, wait_for_signal, finish]
---
Do it.
`,
	"leaf": `---
name: leaf
description: Ends at once.
model: scripted/leaf
loop: singleshot
tools: [finish]
---
Do it.
`,
	"writer": `---
name: writer
description: Writes, and is refused once.
model: scripted/writer
loop: { strategy: revise, validators: [second] }
---
Write it.
`,
	"learner": `---
name: learner
description: Remembers one thing.
model: scripted/learner
loop: singleshot
tools: [remember, finish]
---
Do it.
`,
	"recaller": `---
name: recaller
description: Says what is remembered.
model: scripted/recaller
loop: singleshot
tools: [recall, finish]
---
Do it.
`,
	"moody": `---
name: moody
description: Never gets an answer, and is tried twice.
model: scripted/moody
loop: singleshot
tools: [finish]
retry: { max_attempts: 2, backoff: 1s }
---
Do it.
`,
}

var errandPolicies = map[string]string{
	"errands": `model: scripted/errands
rules:
  - name: delegate
    when: { last: user, not_called: [delegate] }
    answer:
      calls: [{ name: delegate, arguments: { agent: leaf, input: "a task" } }]
  - name: wait
    when: { last: tool, not_called: [wait_for_signal] }
    answer:
      calls: [{ name: wait_for_signal, arguments: { name: go } }]
  - name: end
    when: { last: tool }
    answer:
      calls: [{ name: finish, arguments: { answer: "done" } }]
`,
	"leaf": `model: scripted/leaf
rules:
  - name: end
    when: { last: user }
    answer:
      calls: [{ name: finish, arguments: { answer: "a leaf" } }]
`,
	"writer": `model: scripted/writer
rules:
  - name: again
    when: { last: user, text: "not accepted" }
    answer: { text: "a second draft" }
  - name: first
    when: { last: user }
    answer: { text: "a first draft" }
`,
	"learner": `model: scripted/learner
rules:
  - name: learn
    when: { last: user }
    answer:
      calls: [{ name: remember, arguments: { context: "preference:drink", text: "They drink oolong in the afternoon." } }]
  - name: end
    when: { last: tool }
    answer:
      calls: [{ name: finish, arguments: { answer: "{{result.remember}}" } }]
`,
	"recaller": `model: scripted/recaller
rules:
  - name: recall
    when: { last: user }
    answer:
      calls: [{ name: recall, arguments: { query: "which drink in the afternoon" } }]
  - name: end
    when: { last: tool }
    answer:
      calls: [{ name: finish, arguments: { answer: "{{result.recall}}" } }]
`,
	"moody": `model: scripted/moody
rules:
  - name: fail
    when: { last: user }
    answer:
      error: { kind: invalid_request, message: "not today" }
`,
}
