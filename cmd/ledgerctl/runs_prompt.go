package main

import (
	"cmp"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
)

// printPrompt prints what a run was told and what it may be told.
func (a *app) printPrompt(r runReport) error {
	if s := telling.AskedWords(r.Asked); s != "" {
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
