package bogus

import (
	"context"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// PrayerTimes returns prayer_times, which is readonly.
func PrayerTimes() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "prayer_times",
		Description: "Reads the times of prayer out of an invented almanac. They agree with no real table and can only be read here.",
		Aliases:     []string{"prayer", "fajr", "maghrib", "almanac"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Town string `json:"town" jsonschema:"any town; the almanac has times for each"`
	},
	) (map[string]any, error) {
		town := folded(in.Town)
		// Each town is a few minutes away from the almanac's own.
		off := 0
		for _, b := range []byte(town) {
			off = (off + int(b)) % 13
		}
		at := func(hour, minute int) string { return clock(hour*60 + minute + off) }
		return map[string]any{
			"town": strings.TrimSpace(in.Town), "fajr": at(3, 41), "dhuhr": at(13, 7), "asr": at(16, 53), "maghrib": at(19, 29), "isha": at(22, 11),
			"receipt": Receipt("prayer_times", town),
		}, nil
	}))
}
