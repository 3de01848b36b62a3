package main

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/daybookhq/daybook/events"
)

// printPrompt prints what a run was told and what it may be told.
func (a *app) printPrompt(r runReport) error {
	if s := askedWords(r.Asked); s != "" {
		a.section("asked of the prompt")
		a.fields([]field{{"submission", s}})
	}
	if len(r.Prompt) > 0 {
		a.section("prompt")
		if err := table(a.out, a.term, r.Prompt, promptColumns()); err != nil {
			return err
		}
	}
	if len(r.Skills) > 0 {
		a.section("skills")
		return table(a.out, a.term, r.Skills, skillColumns())
	}
	return nil
}

// askedWords are what a submission says about its run's prompt; empty for nothing.
func askedWords(raw json.RawMessage) string {
	var in struct {
		Text     string   `json:"text"`
		NoLayers bool     `json:"no_layers"`
		Skills   []string `json:"skills"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &in) != nil {
		return string(raw)
	}
	layers := ""
	if in.NoLayers {
		layers = "no configured layers"
	}
	text := strings.Join(strings.Fields(in.Text), " ")
	return either(", ", layers, with("skills ", strings.Join(in.Skills, " ")), with("prompt ", text))
}

func promptColumns() []column[events.PromptLayer] {
	return []column[events.PromptLayer]{
		{name: "layer", keep: true, text: func(l events.PromptLayer) string { return l.ID }},
		{name: "source", keep: true, text: func(l events.PromptLayer) string { return l.Source }},
		{name: "mode", keep: true, text: func(l events.PromptLayer) string { return l.Mode }},
		{name: "digest", text: func(l events.PromptLayer) string { return shortKey(l.Digest) }},
		{name: "taken out by", keep: true, text: func(l events.PromptLayer) string { return l.Off }},
	}
}

func skillColumns() []column[events.Skill] {
	return []column[events.Skill]{
		{name: "skill", keep: true, text: func(s events.Skill) string { return s.Name }},
		{name: "active by", keep: true, text: func(s events.Skill) string { return cmp.Or(s.Active, "can be loaded") }},
		{name: "trust", text: func(s events.Skill) string { return s.Trust }},
		{name: "digest", text: func(s events.Skill) string { return shortKey(s.Digest) }},
		{name: "needs", want: 24, text: func(s events.Skill) string { return strings.Join(s.Tools, " ") }},
	}
}
