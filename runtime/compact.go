package runtime

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
)

const (
	// summaryTokens bounds the answer of a model that compacts.
	summaryTokens = 4096
	// maxSummary bounds what is kept of it, in bytes.
	maxSummary = 48 << 10
)

// compaction is what a new run is bound to of its agent's; the window is the smallest
// that the price table has of the run's models.
func (w *Worker) compaction(a agents.Agent, chain []string) *events.Compaction {
	if a.Compaction == nil {
		return nil
	}
	c := *a.Compaction
	if c.Window > 0 {
		return &c
	}
	for _, m := range chain {
		if n := w.cfg.Prices.Window(m).Input; n > 0 && (c.Window == 0 || n < c.Window) {
			c.Window = n
		}
	}
	return &c
}

// compact makes room in the transcript before the model is asked for a turn, if that
// is due: one act, a call or what came of it. done is true if it did anything.
func (s *session) compact(ctx context.Context, turn int) (done bool, err error) {
	s.mu.Lock()
	due, ok := s.hist.DueCompaction()
	if !ok {
		s.mu.Unlock()
		return false, nil
	}
	e, ask := s.compactedLocked(turn, due)
	begun := s.hist.Turn()
	s.mu.Unlock()
	if ask {
		return true, s.askToCompact(ctx, turn, due)
	}
	if begun < turn {
		if err := s.Record(ctx, events.TurnStarted{Turn: turn}); err != nil {
			return true, err
		}
	}
	return true, s.recordCompacted(ctx, e)
}

// compactedLocked is the compaction that is due, if no model has to be asked for it
// first. s.mu is held: a signal that comes in meanwhile is part of the history, too.
func (s *session) compactedLocked(turn int, due loops.Compacting) (e events.TranscriptCompacted, ask bool) {
	e = events.TranscriptCompacted{Turn: turn, Span: due.Span, Because: due.Because, Tokens: due.Tokens, By: s.hist.Compaction().With, Trust: "own"}
	if s.hist.SawExternal() {
		e.Trust = "external"
	}
	_, left := s.hist.CompactionRoute()
	switch last := due.LastError; {
	case e.By == events.CompactedByCut:
	case due.Answer != nil:
		e.Attempt = due.Answer.Attempt
		e.Text, e.Failed = s.summary(due)
	case last != nil && !left && len(s.hist.CompactionChain()) > 1:
		e.Failed = fmt.Sprintf("the models failed %d times, the last one %s: %s", due.Failures, last.Model, last.Error.Kind)
	case last != nil && !left:
		e.Failed = fmt.Sprintf("the model failed %d times: %s", due.Failures, last.Error.Kind)
	default:
		return e, true
	}
	if e.Text != "" && !s.hist.Helps(e) {
		e.Text, e.Failed = "", "the summary is no smaller than what it was to replace"
	}
	if e.Text == "" {
		e.By = events.CompactedByCut
	}
	return e, false
}

// summary is what is taken of a model's answer, or why nothing is.
func (s *session) summary(due loops.Compacting) (text, failed string) {
	text = strings.TrimSpace(due.Answer.Text)
	if due.Answer.StopReason == "refusal" {
		return "", "the model refused to write a summary"
	}
	if due.Answer.StopReason == "max_tokens" { // what it would have said last is missing, and nobody could tell
		return "", fmt.Sprintf("the summary was cut off at the limit of %d tokens", summaryTokens)
	}
	if s.agent.Compaction.With == events.CompactedByObservations {
		text = loops.Observations(text, due.Span)
	}
	if len(text) > maxSummary {
		text = strings.ToValidUTF8(text[:maxSummary], "") + "\n(cut)"
	}
	if text == "" {
		return "", "the model wrote no summary"
	}
	return text, ""
}

// askToCompact asks a model for the text, who of a chain the record decides. It sees the recorded transcript as text,
// and none of the run's tools: there is nothing that it could do.
func (s *session) askToCompact(ctx context.Context, turn int, due loops.Compacting) error {
	route, m, later, err := s.route(ctx, s.hist.CompactionRoute)
	if later || err != nil {
		return err
	}
	s.mu.Lock()
	ms, turns := s.hist.Original(due.Span), s.hist.OriginalTurns(due.Span)
	s.mu.Unlock()
	req := model.Request{
		Model: route.Model, System: loops.CompactionPrompt(s.agent.Compaction.With), MaxTokens: summaryTokens,
		Messages: []model.Message{{Role: model.User, Text: loops.Written(ms, turns)}},
	}
	return s.ask(ctx, wireCall{turn: turn, route: route, model: m, req: req, tools: []string{}, compacts: &due.Span})
}
