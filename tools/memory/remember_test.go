package memory_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func TestRemember(t *testing.T) {
	t.Run("SG-84 SG-86 SG-87 SG-89 one note, in one form, with the root and the source", func(t *testing.T) {
		store := memorytest.NewStore()
		says(t, wired(t, memory.Options{Client: store}), "remember",
			`{"context":"Person: Alice Smith","text":"Likes tea.","related_to":["Drink:Tea","drink: tea"],"contradicts":["A : B"],"details":{"cups":12345678901234567890}}`,
			`remembered: m1
context: "person:alice_smith"
extends[1]: "user:ada"
related_to[1]: "drink:tea"
contradicts[1]: "a:b"`)
		says(t, wired(t, memory.Options{Client: store, Source: "document"}), "remember", `{"context":"a:b","text":"x","extends":["User: Ada","c:d"]}`,
			"remembered: m2\ncontext: \"a:b\"\nextends[2]: \"user:ada\",\"c:d\"")
		b, err := json.Marshal(store.Memories())
		if err != nil {
			t.Fatal(err)
		}
		of := `"tenant":"` + tenant() + `","root":"user:ada",`
		want := `[{"id":"m1",` + of + `"context_id":"person:alice_smith","text":"Likes tea.","kind":"fact","source":"assistant","details":{"cups":12345678901234567890},` +
			`"extends":["user:ada"],"related_to":["drink:tea"],"reinforces":[],"contradicts":["a:b"]},` +
			`{"id":"m2",` + of + `"context_id":"a:b","text":"x","kind":"fact","source":"document","details":{},"extends":["user:ada","c:d"],"related_to":[],"reinforces":[],"contradicts":[]}]`
		if string(b) != want {
			t.Errorf("kept\n %s, want\n %s", b, want)
		}
	})
	t.Run("SG-86 the model cannot say the source", func(t *testing.T) {
		m := wired(t, memory.Options{Client: memorytest.NewStore()})
		toolstest.AssertBlocked(t, toolstest.Probe{
			Tool: named(m, "remember"), Arguments: json.RawMessage(`{"context":"a:b","text":"x","source":"policy"}`),
		}, events.BlockedInvalidArguments)
	})
	t.Run("made again, it is one note; another one is another", func(t *testing.T) {
		store := memorytest.NewStore()
		m := wired(t, memory.Options{Client: store})
		args := []string{
			`{"context":"a:b","text":"x"}`, `{"context":"A: B","text":"x"}`, `{"context":"a:b","text":"y"}`, `{"context":"a:c","text":"x"}`,
			`{"context":"a:b","text":"x","details":{"n":1}}`, `{"context":"a:b","text":"x","reinforces":["a:b"]}`,
		}
		for range 2 {
			for _, a := range args {
				call(t, m, "remember", a)
			}
		}
		call(t, wired(t, memory.Options{Client: store, Root: memory.FixedRoot("user:bob")}), "remember", args[0])
		call(t, wired(t, memory.Options{Client: store, Source: "user"}), "remember", args[0])
		if n := len(store.Memories()); n != len(args)-1+2 {
			t.Errorf("%d notes, want %d", n, len(args)+1)
		}
	})
	t.Run("bad arguments", func(t *testing.T) {
		store := memorytest.NewStore()
		m := wired(t, memory.Options{Client: store})
		long := strings.Repeat("x", 17<<10)
		for _, args := range []string{
			`{"context":"ada","text":"x"}`, `{"context":"a:b","text":" "}`, `{"context":"a:b","text":"` + long + `"}`, `{"context":"a:b","text":"x","details":{"n":"` + long + `"}}`,
			`{"context":"a:b","text":"x","details":{"data":"y"}}`, `{"context":"a:b","text":"x","extends":["c"]}`, `{"context":"a:b","text":"x","extends":["c:d"` + strings.Repeat(`,"c:d"`, 32) + `]}`,
		} {
			if r := call(t, m, "remember", args); r.Status != tools.Failed || !strings.Contains(r.Error, "invalid arguments") {
				t.Errorf("%.60s: %+v", args, r)
			}
		}
		if len(store.Memories()) != 0 {
			t.Errorf("kept %+v", store.Memories())
		}
	})
}

func TestSecrets(t *testing.T) {
	r := redact.New(redact.Config{})
	const secret = "hunter2-correct-horse"
	if err := r.Register("door", secret); err != nil {
		t.Fatal(err)
	}
	store := memorytest.NewStore()
	m := wired(t, memory.Options{Client: store, Redactor: r})
	call(t, m, "remember", `{"context":"a:b","text":"The code is `+secret+`.","details":{"code":["`+secret+`"]}}`)
	if err := m.Observe(t.Context(), &tools.Invocation{}, memory.Exchange{Question: secret, Answer: secret}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"context":"a:` + secret + `","text":"x"}`, `{"context":"a:b","text":"x","related_to":["a: ` + secret + `"]}`} {
		if got := call(t, m, "remember", args); got.Status != tools.Failed {
			t.Errorf("%+v", got)
		}
	}
	b, err := json.Marshal([]any{store.Memories(), store.Observed()})
	if err != nil || len(store.Memories()) != 1 || len(store.Observed()) != 1 || strings.Contains(string(b), "hunter2") {
		t.Errorf("kept %s, %v", b, err)
	}
}
