package memory_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
)

func Example() {
	m, err := memory.New(memory.Options{
		Client: memorytest.NewStore(),
		Root:   func(inv *tools.Invocation) string { return "user:" + inv.SessionID },
		// In a program, the one that its secrets are registered with.
		Redactor: redact.New(redact.Config{}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	recall, remember := m.Tools()[0], m.Tools()[2]
	call := func(t tools.Tool, session, args string) {
		out, err := t.Call(context.Background(), &tools.Invocation{SessionID: session, Arguments: json.RawMessage(args)})
		fmt.Println(out, err)
	}
	call(remember, "ada", `{"context":"Preference: Dark Mode","text":"They prefer dark mode."}`)
	call(recall, "ada", `{"query":"dark mode"}`)
	call(recall, "bob", `{"query":"dark mode"}`)
	// Output:
	// remembered: m1
	// context: "preference:dark_mode"
	// extends[1]: "user:ada" <nil>
	// memories[1]{contexts,text,source,relevance}:
	//   "preference:dark_mode user:ada",They prefer dark mode.,assistant,0.9 <nil>
	// memories[0]{contexts,text,source,relevance}: <nil>
}
