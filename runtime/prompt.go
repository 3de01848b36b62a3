package runtime

import (
	"crypto/sha256"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
)

// compose is the agent's prompt with its layers. One without layers is as it is.
func compose(a *agents.Agent) (prompt.Prompt, error) {
	if len(a.Layers) == 0 {
		return prompt.Prompt{Text: a.Prompt}, nil
	}
	return prompt.Compose(a.Prompt, a.Layers...)
}

// compose sets the run's prompt, redacted as whoever resumes will read it, and
// returns what a run is told to be bound to.
func (s *session) compose(a agents.Agent) ([]events.PromptLayer, error) {
	p, err := compose(&a)
	if err != nil {
		return nil, err
	}
	s.prompt = s.red.String(p.Text)
	var layers []events.PromptLayer
	for _, l := range p.Parts {
		layers = append(layers, events.PromptLayer{
			ID: l.ID, Source: string(l.Source), Mode: string(l.Mode), Digest: sha256.Sum256([]byte(s.red.String(l.Text))), Off: l.Off,
		})
	}
	return layers, nil
}
