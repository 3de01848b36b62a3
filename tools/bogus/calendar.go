package bogus

import (
	"context"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// MyCalendar returns my_calendar, which is readonly.
func MyCalendar() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "my_calendar",
		Description: "Reads the entries of the user's diary for one day. The diary exists nowhere else, so its entries cannot be guessed.",
		Aliases:     []string{"calendar", "diary", "appointment", "meeting", "schedule"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Day string `json:"day" jsonschema:"the day, as 2026-08-03"`
	},
	) (map[string]any, error) {
		diary := map[string][]string{
			"2026-08-03": {"09:20 dentist Dr. Quillon", "17:45 choir, bring the blue folder"},
			"2026-08-04": {"12:00 lunch with Oona at the Tin Heron"},
			"2026-08-14": {"06:10 ferry to Lower Quill, cabin 6B"},
		}
		day := strings.TrimSpace(in.Day)
		entries, ok := diary[day]
		if !ok {
			entries = []string{}
		}
		return map[string]any{"found": ok, "day": day, "entries": entries, "receipt": Receipt("my_calendar", day)}, nil
	}))
}
