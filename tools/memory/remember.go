package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// maxNote is how long a note, and its details as JSON, may be, in bytes.
const maxNote = 16 << 10

type rememberArgs struct {
	Context     string         `json:"context" jsonschema:"where it belongs: type:name, such as person:alice_smith"`
	Text        string         `json:"text" jsonschema:"the one thing to remember, as a sentence that stands alone"`
	Extends     []string       `json:"extends,omitempty" jsonschema:"contexts that this one is a part or a kind of"`
	RelatedTo   []string       `json:"related_to,omitempty" jsonschema:"contexts that it has to do with"`
	Reinforces  []string       `json:"reinforces,omitempty" jsonschema:"contexts that it confirms"`
	Contradicts []string       `json:"contradicts,omitempty" jsonschema:"contexts that it speaks against"`
	Details     map[string]any `json:"details,omitempty" jsonschema:"structured details, if there are any"`
}

func (m *Memory) remember() (tools.Tool, error) {
	return tools.New(tools.Definition{
		Name:        "remember",
		Description: "Keeps one thing for later, also for other conversations. The same thing is kept once, however often it is remembered.",
		Aliases:     []string{"memorize", "keep in mind", "note for later", "learn"},
		Effect:      tools.Idempotent, Trust: tools.Own, Timeout: patience,
	}, func(ctx context.Context, inv *tools.Invocation, in rememberArgs) (string, error) {
		s, err := m.scope(inv)
		if err != nil {
			return "", err
		}
		e, err := m.event(s, in)
		if err != nil {
			return "", err
		}
		stored, err := m.options.Client.StoreEvents(ctx, s, []Event{e})
		if err != nil {
			return "", fmt.Errorf("remember: %w", err)
		}
		if stored.Stored != 1 || len(stored.Results) != 1 {
			return "", errors.New("remember: the memory did not keep it")
		}
		return rememberedAs(stored.Results[0].EventID, e), nil
	})
}

// event is what a model wants to be remembered, with the root and the source
// that it has no say in.
func (m *Memory) event(s Scope, in rememberArgs) (Event, error) {
	e := Event{Kind: "fact", Source: m.options.Source}
	var wrong []string
	id, err := NormalizeContextID(in.Context)
	if err != nil {
		wrong = append(wrong, "context: "+err.Error())
	}
	e.ContextID = id
	switch {
	case strings.TrimSpace(in.Text) == "":
		wrong = append(wrong, "text: it is empty")
	case len(in.Text) > maxNote:
		wrong = append(wrong, fmt.Sprintf("text: %d bytes, at most %d are allowed", len(in.Text), maxNote))
	}
	for _, l := range []struct {
		name  string
		typed []string
		ids   *[]string
	}{
		{Extends, in.Extends, &e.Extends},
		{RelatedTo, in.RelatedTo, &e.RelatedTo},
		{Reinforces, in.Reinforces, &e.Reinforces},
		{Contradicts, in.Contradicts, &e.Contradicts},
	} {
		ids, bad := normalized(l.name, l.typed)
		*l.ids, wrong = ids, append(wrong, bad...)
	}
	if _, taken := in.Details["data"]; taken {
		wrong = append(wrong, `details: the name "data" is taken by the text`)
	}
	details, err := encode(in.Details)
	if err != nil || len(details) > maxNote {
		wrong = append(wrong, fmt.Sprintf("details: at most %d bytes of JSON are allowed", maxNote))
	}
	if err := problems("remember", wrong); err != nil {
		return Event{}, err
	}
	for _, typed := range slices.Concat([]string{in.Context}, in.Extends, in.RelatedTo, in.Reinforces, in.Contradicts) {
		if m.options.Redactor.String(typed) != typed {
			return Event{}, problems("remember", []string{"a context contains a secret, which is never kept"})
		}
	}
	if !slices.Contains(e.Extends, s.Root) {
		e.Extends = append(e.Extends, s.Root)
	}
	payload := map[string]any{"data": in.Text}
	for name, v := range in.Details {
		payload[name] = v
	}
	clean, err := m.options.Redactor.JSON(payload)
	if err != nil {
		return Event{}, fmt.Errorf("remember: %w", err)
	}
	e.Payload = clean.Bytes()
	e.Key, err = keyOf(s.Root, e)
	return e, err
}

// keyOf is the identity of a note within its tenant: who remembers what, and
// nothing of the call. See docs/decisions/0017.
func keyOf(root string, e Event) (string, error) {
	b, err := json.Marshal([]any{"daybook-memory/1", root, e})
	if err != nil {
		return "", fmt.Errorf("remember: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// rememberedAs echoes what was kept, with ids in their one form.
func rememberedAs(id string, e Event) string {
	var b strings.Builder
	b.WriteString("remembered: " + toonText(id) + "\ncontext: " + toonText(e.ContextID) + "\n")
	for _, l := range kinds(e.Links) {
		if len(l.ids) > 0 {
			toonList(&b, l.name, l.ids)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

type kind struct {
	name string
	ids  []string
}

func kinds(l Links) []kind {
	return []kind{{Extends, l.Extends}, {RelatedTo, l.RelatedTo}, {Reinforces, l.Reinforces}, {Contradicts, l.Contradicts}}
}
