package memory

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// Bounds of what a model may ask.
const (
	maxQuery = 4 << 10 // bytes
	maxRows  = 50
	maxLinks = 32 // of one kind
)

const patience = 30 * time.Second

// problems is nil, or what is wrong with the arguments.
func problems(tool string, all []string) error {
	if len(all) == 0 {
		return nil
	}
	return &tools.ArgumentError{Tool: tool, Problems: all}
}

// question says what is wrong with a text to look for.
func question(argument, text string) []string {
	switch {
	case strings.TrimSpace(text) == "":
		return []string{argument + ": it is empty"}
	case len(text) > maxQuery:
		return []string{fmt.Sprintf("%s: %d bytes, at most %d are allowed", argument, len(text), maxQuery)}
	}
	return nil
}

func (m *Memory) recall() (tools.Tool, error) {
	return tools.New(tools.Definition{
		Name: "recall",
		Description: "Searches what is remembered. It is cheap: use it first, before deep_recall. " +
			"Returns notes with the contexts they stand in, their text, where they come from, and how well they match (relevance, up to 1).",
		Aliases: []string{"memory", "remembered", "what do you know about"},
		Effect:  tools.Readonly, Trust: m.options.Trust, Timeout: patience,
	}, func(ctx context.Context, inv *tools.Invocation, in struct {
		Query    string   `json:"query" jsonschema:"words that the notes contain"`
		Contexts []string `json:"contexts,omitempty" jsonschema:"contexts, type:name, whose notes come first"`
		Limit    int      `json:"limit,omitempty" jsonschema:"how many notes, 1 to 50; 10 if left out"`
	},
	) (string, error) {
		s, err := m.scope(inv)
		if err != nil {
			return "", err
		}
		prefer, wrong := normalized("contexts", in.Contexts)
		wrong = append(question("query", in.Query), wrong...)
		if in.Limit < 0 || in.Limit > maxRows {
			wrong = append(wrong, fmt.Sprintf("limit: %d, want 1 to %d", in.Limit, maxRows))
		}
		if err := problems("recall", wrong); err != nil {
			return "", err
		}
		q := Query{Scope: s, Text: in.Query, Prefer: prefer}
		if in.Limit > 0 {
			q.Limit = &in.Limit
		}
		found, err := m.options.Client.Retrieve(ctx, q)
		if err != nil {
			return "", fmt.Errorf("recall: %w", err)
		}
		return m.shown(prefer, found.Items), nil
	})
}

// shown renders rows, after the contexts that were named, in their one form.
func (m *Memory) shown(contexts []string, rows []Row) string {
	var b strings.Builder
	if m.options.Format == Markdown {
		if len(contexts) > 0 {
			b.WriteString("Contexts: " + strings.Join(contexts, ", ") + "\n\n")
		}
		for _, r := range rows {
			fmt.Fprintf(&b, "- %s (%s; source %s; relevance %s)\n", oneLine(r.Text), oneLine(strings.Join(r.ContextIDs, ", ")), oneLine(r.Source), number(r.Score))
		}
		if len(rows) == 0 {
			b.WriteString("Nothing is remembered about it.\n")
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	if len(contexts) > 0 {
		toonList(&b, "named", contexts)
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{toonText(strings.Join(r.ContextIDs, " ")), toonText(r.Text), toonText(r.Source), number(r.Score)}
	}
	toonTable(&b, "memories", []string{"contexts", "text", "source", "relevance"}, cells)
	return strings.TrimSuffix(b.String(), "\n")
}

// deepAnswer is what deep_recall returns: the model sees Answer alone.
type deepAnswer struct {
	Answer string `json:"answer"`
	// Results are there for the form; evidence has no links to cite.
	Results      []struct{} `json:"results"`
	CostMicroUSD *int64     `json:"costMicroUsd,omitempty"`
}

func (m *Memory) deepRecall() (tools.Tool, error) {
	t, err := tools.New(tools.Definition{
		Name: "deep_recall",
		Description: "Follows the links between notes to answer a question about what is remembered, and returns the evidence. " +
			"It costs more than recall: use it when recall did not find enough.",
		Aliases: []string{"memory", "remembered", "connections"},
		Effect:  tools.Readonly, Trust: m.options.Trust, Needs: []string{"recall"}, Price: m.options.DeepPrice, Timeout: 2 * time.Minute,
	}, func(ctx context.Context, inv *tools.Invocation, in struct {
		Question string   `json:"question" jsonschema:"a whole question"`
		Contexts []string `json:"contexts,omitempty" jsonschema:"contexts, type:name, whose notes come first"`
	},
	) (deepAnswer, error) {
		s, err := m.scope(inv)
		if err != nil {
			return deepAnswer{}, err
		}
		prefer, wrong := normalized("contexts", in.Contexts)
		if err := problems("deep_recall", append(question("question", in.Question), wrong...)); err != nil {
			return deepAnswer{}, err
		}
		e, err := m.options.Client.DeepRecall(ctx, Question{Scope: s, Text: in.Question, Prefer: prefer})
		if err != nil {
			return deepAnswer{}, fmt.Errorf("deep_recall: %w", err)
		}
		return deepAnswer{Answer: evidence(prefer, e), Results: []struct{}{}, CostMicroUSD: microUSD(e.Usage.CostUSD)}, nil
	})
	if err != nil {
		return nil, err
	}
	return tools.WithCost(t, func(value any) (int64, bool) {
		a, ok := value.(deepAnswer)
		if !ok || a.CostMicroUSD == nil {
			return 0, false
		}
		return *a.CostMicroUSD, true
	}), nil
}

// evidence is what the model is told of a walk.
func evidence(contexts []string, e Evidence) string {
	var b strings.Builder
	if len(contexts) > 0 {
		toonList(&b, "named", contexts)
	}
	if e.Summary != "" {
		b.WriteString("summary: " + toonText(e.Summary) + "\n")
	}
	b.WriteString("coverage: " + toonText(e.Coverage) + "\n")
	if e.Fallback {
		b.WriteString("fallback: true\n")
	}
	cells := make([][]string, len(e.Facts))
	for i, f := range e.Facts {
		cells[i] = []string{toonText(strings.Join(f.Contexts, " ")), toonText(f.Text), toonText(f.Source), number(f.Score)}
	}
	toonTable(&b, "facts", []string{"contexts", "text", "source", "relevance"}, cells)
	toonList(&b, "walked", e.ContextsWalked)
	return strings.TrimSuffix(b.String(), "\n")
}

// microUSD rounds a cost up. A cost that cannot be one is unmeasured.
func microUSD(usd *float64) *int64 {
	const most = 1e6 // USD
	if usd == nil || !(*usd >= 0 && *usd <= most) {
		return nil
	}
	// What a float makes of a whole number of micro-USD is not rounded up.
	micro := int64(math.Ceil(*usd*1e6 - 1e-6))
	return &micro
}
