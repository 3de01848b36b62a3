package main

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// scheduleView is one schedule in JSON and tables.
type scheduleView struct {
	Tenant         string             `json:"tenant"`
	Name           string             `json:"name"`
	Cron           string             `json:"cron"`
	TimeZone       string             `json:"timezone"`
	Missed         ledger.MissedRule  `json:"missed"`
	CatchUp        int                `json:"catch_up"`
	Overlap        ledger.OverlapRule `json:"overlap"`
	Agent          string             `json:"agent"`
	Queue          string             `json:"queue"`
	Owner          string             `json:"owner,omitempty"`
	Priority       int                `json:"priority,omitempty"`
	ConcurrencyKey string             `json:"concurrency_key,omitempty"`
	MaxAttempts    int                `json:"max_attempts,omitempty"`
	Budget         *events.PicoUSD    `json:"budget,omitempty"`
	Input          json.RawMessage    `json:"input"`
	NextFire       time.Time          `json:"next_fire,omitzero"`
	LastFire       time.Time          `json:"last_fire,omitzero"`
	LastRun        events.RunID       `json:"last_run,omitzero"`
	Skipped        int64              `json:"skipped"`
	SkippedAt      time.Time          `json:"skipped_at,omitzero"`
	SkippedWhy     string             `json:"skipped_why,omitempty"`
	PausedAt       time.Time          `json:"paused_at,omitzero"`
	PausedBy       string             `json:"paused_by,omitempty"`
	PausedReason   string             `json:"paused_reason,omitempty"`
	Error          string             `json:"error,omitempty"`
	ErrorAt        time.Time          `json:"error_at,omitzero"`
	CreatedBy      string             `json:"created_by"`
	CreatedAt      time.Time          `json:"created_at"`
	UpdatedBy      string             `json:"updated_by"`
	UpdatedAt      time.Time          `json:"updated_at"`
}

func viewOfSchedule(s ledger.ScheduleState) scheduleView {
	r := s.Run
	return scheduleView{
		Tenant: r.Tenant, Name: s.Name, Cron: s.Cron, TimeZone: s.TimeZone, Missed: s.Missed, CatchUp: s.CatchUp, Overlap: s.Overlap,
		Agent: r.Agent, Queue: r.Queue, Owner: r.Owner, Priority: r.Priority, ConcurrencyKey: r.ConcurrencyKey, MaxAttempts: r.MaxAttempts,
		Budget: r.Budget, Input: r.Input.Bytes(), NextFire: s.NextFire, LastFire: s.LastFire, LastRun: s.LastRun,
		Skipped: s.Skipped, SkippedAt: s.SkippedAt, SkippedWhy: s.SkippedWhy, PausedAt: s.Paused.At, PausedBy: s.Paused.By, PausedReason: s.Paused.Reason,
		Error: s.Error, ErrorAt: s.ErrorAt, CreatedBy: s.CreatedBy, CreatedAt: s.CreatedAt, UpdatedBy: s.UpdatedBy, UpdatedAt: s.UpdatedAt,
	}
}

func (a *app) scheduleColumns() []column[scheduleView] {
	return []column[scheduleView]{
		{name: "tenant", mixed: true, text: func(v scheduleView) string { return v.Tenant }},
		{name: "name", keep: true, text: func(v scheduleView) string { return v.Name }},
		{name: "cron", keep: true, text: func(v scheduleView) string { return v.Cron }},
		{name: "timezone", keep: true, text: func(v scheduleView) string { return v.TimeZone }},
		{name: "agent", text: func(v scheduleView) string { return v.Agent }},
		{name: "next", keep: true, text: func(v scheduleView) string { return a.nextWords(v) }, raw: func(v scheduleView) string { return exact(v.NextFire) }},
		{name: "last_run", keep: true, text: func(v scheduleView) string {
			if v.LastRun.IsZero() {
				return "-"
			}
			return v.LastRun.String()
		}},
		{name: "missed", drop: 2, text: func(v scheduleView) string { return string(v.Missed) }},
		{name: "overlap", drop: 1, text: func(v scheduleView) string { return string(v.Overlap) }},
		{name: "skipped", drop: 3, right: true, text: func(v scheduleView) string { return strconv.FormatInt(v.Skipped, 10) }},
		{name: "note", want: 24, text: scheduleNote},
	}
}

func (a *app) nextWords(v scheduleView) string {
	switch {
	case v.PausedAt.IsZero() && !v.NextFire.IsZero() && a.now().Sub(v.NextFire) > ledger.FireGrace:
		return stamp(v.NextFire) + " (late)"
	case v.NextFire.IsZero():
		return "never"
	}
	return stamp(v.NextFire)
}

func scheduleNote(v scheduleView) string {
	switch {
	case !v.PausedAt.IsZero():
		return "paused by " + v.PausedBy + ": " + v.PausedReason
	case v.Error != "":
		return "cannot fire: " + v.Error
	case v.Skipped > 0:
		return plural(v.Skipped, "fire") + " without a run of their own: " + v.SkippedWhy
	}
	return ""
}
