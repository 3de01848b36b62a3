//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/script"
)

// change is the input of a run.
type change struct {
	ID string `json:"id"`
	// WatchMS is how long a merged change is watched.
	WatchMS int64 `json:"watch_ms"`
}

// reviewing is the agent's work, from top to bottom. It may be run many times over:
// what has happened is not done again.
func reviewing() loops.Loop {
	return script.New(script.Config{Name: "review", Version: 1}, review)
}

func review(s *script.Script, in change) (any, error) {
	about := map[string]any{"change": in.ID}
	diff := s.Tool("read_change", about)
	if !diff.OK() {
		return nil, diff.Err()
	}

	var verdict struct {
		Approve bool   `json:"approve"`
		Why     string `json:"why"`
	}
	answer, err := s.Model(script.Ask{Text: "Review this change. Answer with JSON: \"approve\" (true or false) and \"why\".\n\n" + diff.Text})
	if err == nil {
		err = answer.Decode(&verdict)
	}
	if err != nil {
		return nil, err
	}
	if !verdict.Approve {
		return nil, script.Decline(verdict.Why)
	}
	kept, err := s.Artifact(script.Artifact{Name: "review", Value: verdict})
	if err == nil {
		err = kept.Err()
	}
	if err != nil {
		return nil, err
	}

	// Destructive, and a person has to approve it (AGENT.md): the run waits here for
	// as long as that takes.
	merged := s.Tool("merge", about)
	switch {
	case merged.Status == script.Blocked:
		return "not merged: " + merged.Text, nil
	case !merged.OK():
		return nil, merged.Err()
	}

	s.SleepUntil(s.Now().Add(time.Duration(in.WatchMS) * time.Millisecond)) // a row in the ledger meanwhile

	var after struct {
		Keep bool   `json:"keep"`
		Why  string `json:"why"`
	}
	errors := s.Tool("error_rate", nil)
	answer, err = s.Model(script.Ask{Text: fmt.Sprintf("Change %s was merged. Errors since then: %s. Answer with JSON: \"keep\" (true or false) and \"why\".", in.ID, errors.Text)})
	if err == nil {
		err = answer.Decode(&after)
	}
	if err != nil {
		return nil, err
	}
	if !after.Keep {
		return "reverted: " + after.Why, s.Tool("revert", about).Err()
	}
	return "merged and kept: " + after.Why, nil
}
