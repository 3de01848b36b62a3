package runtime

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
)

// asked is what a submission says about its run's prompt, as the row of the run and
// run_queued keep it. Stored: a field is never renamed.
type asked struct {
	Text     string   `json:"text,omitempty"`
	NoLayers bool     `json:"no_layers,omitempty"`
	Skills   []string `json:"skills,omitempty"`
}

func (a asked) isZero() bool { return a.Text == "" && !a.NoLayers && len(a.Skills) == 0 }

// Bounds of what a submission says, which run_queued repeats.
const (
	maxAsked       = events.MaxDataBytes / 4 // bytes, redacted and as JSON
	maxAskedSkills = 32
)

// runLayer is the ID of a submission's own layer.
const runLayer = "run"

// check says what cannot be a prompt.
func (a asked) check() error {
	if len(a.Skills) > maxAskedSkills {
		return fmt.Errorf("there are %d skills, at most %d", len(a.Skills), maxAskedSkills)
	}
	for i, name := range a.Skills {
		if !events.ValidName(name) {
			return fmt.Errorf("skill %q: want 1 to 64 letters, digits, - or _", name)
		}
		if slices.Contains(a.Skills[:i], name) {
			return fmt.Errorf("skill %q is there twice", name)
		}
	}
	_, err := prompt.Compose("", a.layers()...)
	return err
}

// layers are what the submission itself brings.
func (a asked) layers() []prompt.Layer {
	if a.Text == "" {
		return nil
	}
	return []prompt.Layer{{ID: runLayer, Source: prompt.Run, Text: a.Text}}
}

// submitted is what the run's submission says.
func (s *session) submitted() (a asked, err error) {
	if len(s.run.Prompt) == 0 {
		return a, nil
	}
	err = json.Unmarshal(s.run.Prompt, &a)
	return a, err
}

// compose is the agent's prompt with its layers, those of skills, and what the
// submission says. One without layers is as it is. That configured layers are off
// takes away neither the base nor skills, which somebody chose one by one.
func compose(a *agents.Agent, in asked) (prompt.Prompt, error) {
	layers := slices.Concat(prompt.Configured(a.Layers, in.NoLayers), skillLayers(a, in.Skills), in.layers())
	if len(layers) == 0 {
		return prompt.Prompt{Text: a.Prompt}, nil
	}
	return prompt.Compose(a.Prompt, layers...)
}

// compose sets the run's prompt, redacted as whoever resumes will read it, and
// returns what a run is told to be bound to.
func (s *session) compose(a agents.Agent, in asked) ([]events.PromptLayer, error) {
	p, err := compose(&a, in)
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
