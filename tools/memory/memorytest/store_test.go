package memorytest_test

import (
	"encoding/json"
	"testing"

	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
)

func TestConformance(t *testing.T) {
	memorytest.TestClient(t, func(*testing.T) memory.Client { return memorytest.NewStore() })
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStore(t *testing.T) {
	t.Run("SG-95 SG-96 seeds in order, with defaults", func(t *testing.T) {
		extends := []string{"Person: Bob"}
		s := memorytest.NewStore(memorytest.Note{ContextID: "Person: Alice", Text: "one"},
			memorytest.Note{ContextID: "b:c", Text: "two", Kind: "k", Source: "tool", Details: map[string]any{"n": 1}, Links: memory.Links{Extends: extends}})
		extends[0] = "changed afterwards"
		got := s.Remember(memorytest.Note{})
		if asJSON(t, got) != `{"id":"m3","context_id":"","text":"","kind":"fact","source":"assistant","details":{},"extends":[],"related_to":[],"reinforces":[],"contradicts":[]}` {
			t.Errorf("returned %s", asJSON(t, got))
		}
		want := `[{"id":"m1","context_id":"Person: Alice","text":"one","kind":"fact","source":"assistant","details":{},"extends":[],"related_to":[],"reinforces":[],"contradicts":[]},` +
			`{"id":"m2","context_id":"b:c","text":"two","kind":"k","source":"tool","details":{"n":1},"extends":["Person: Bob"],"related_to":[],"reinforces":[],"contradicts":[]},` + asJSON(t, got) + `]`
		if all := asJSON(t, s.Memories()); all != want || len(s.Observed()) != 0 {
			t.Errorf("memories\n %s, want\n %s", all, want)
		}
	})
	t.Run("SG-97 tokens", func(t *testing.T) {
		for text, want := range map[string]string{
			"it is": `{}`, "The cat, the CAT-fish": `{"cat":true,"fish":true,"the":true}`, "Zürich a1b2": `{"a1b2":true,"rich":true}`, "\u212aelvin": `{"elvin":true}`,
		} {
			if got := asJSON(t, memory.Tokens(text)); got != want {
				t.Errorf("%q: %s, want %s", text, got, want)
			}
		}
	})
	t.Run("SG-104 details and links are kept", func(t *testing.T) {
		s := memorytest.NewStore()
		_, err := s.StoreEvents(t.Context(), memory.Scope{}, []memory.Event{{
			Payload: json.RawMessage(`{"data":"x","a":12345678901234567890}`), Links: memory.Links{Contradicts: []string{"y:z"}},
		}})
		n := s.Memories()[0]
		if err != nil || n.ID != "m1" || asJSON(t, n.Details) != `{"a":12345678901234567890}` || asJSON(t, n.Contradicts) != `["y:z"]` {
			t.Errorf("%s, %v", asJSON(t, n), err)
		}
	})
	t.Run("SG-103 a deep recall is free", func(t *testing.T) {
		e, err := memorytest.NewStore().DeepRecall(t.Context(), memory.Question{})
		if err != nil || asJSON(t, e.Usage) != `{"cost_usd":0}` {
			t.Errorf("%+v, %v", e, err)
		}
	})
	t.Run("SG-110 what was observed", func(t *testing.T) {
		s := memorytest.NewStore()
		for _, stream := range []string{"", "chat"} {
			if err := s.Observe(t.Context(), memory.Scope{}, memory.Moment{Source: "s", Payload: json.RawMessage(`{"q":1}`), Stream: stream}); err != nil {
				t.Fatal(err)
			}
		}
		if got := asJSON(t, s.Observed()); got != `[{"source":"s","payload":{"q":1}},{"source":"s","payload":{"q":1},"stream":"chat"}]` || len(s.Memories()) != 0 {
			t.Errorf("observed %s", got)
		}
	})
}
