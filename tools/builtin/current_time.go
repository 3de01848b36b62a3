package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// CurrentTimeConfig is how [CurrentTime] tells the time. The zero value tells UTC.
type CurrentTimeConfig struct {
	// DefaultTimeZone is the IANA name of the zone that is meant unless the call
	// names one. Empty means UTC.
	DefaultTimeZone string
	// Now is time.Now if nil.
	Now func() time.Time
}

// reading is what current_time returns.
type reading struct {
	Time     string `json:"time"`
	TimeZone string `json:"time_zone"`
	Weekday  string `json:"weekday"`
	Unix     int64  `json:"unix"`
}

// CurrentTime returns current_time, which tells the time in a zone. A
// DefaultTimeZone that does not exist is an error: nobody falls back to another
// zone, neither here nor in a call. Zones come from the machine's database, or
// from time/tzdata in a program that imports it.
func CurrentTime(cfg CurrentTimeConfig) (tools.Tool, error) {
	if cfg.DefaultTimeZone == "" {
		cfg.DefaultTimeZone = "UTC"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	home, err := zone(cfg.DefaultTimeZone)
	if err != nil {
		return nil, fmt.Errorf("builtin.CurrentTime: default time zone: %w", err)
	}
	return tools.New(tools.Definition{
		Name: "current_time",
		Description: fmt.Sprintf("Tells the date, the time and the weekday of now, in the time zone %s unless another is named. "+
			"Ask it before you reckon with today's date.", home),
		Aliases: []string{"now", "today", "clock", "date"},
		Effect:  tools.Readonly,
		Trust:   tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		TimeZone *string `json:"time_zone,omitempty" jsonschema:"an IANA time zone, as in Europe/Berlin"`
	},
	) (reading, error) {
		loc := home
		if in.TimeZone != nil {
			var err error
			if loc, err = zone(*in.TimeZone); err != nil {
				return reading{}, &tools.ArgumentError{Tool: "current_time", Problems: []string{"time_zone: " + err.Error()}}
			}
		}
		t := cfg.Now().In(loc)
		return reading{Time: t.Format(time.RFC3339), TimeZone: loc.String(), Weekday: t.Weekday().String(), Unix: t.Unix()}, nil
	})
}

// zone loads an IANA zone. What time.LoadLocation takes besides, the empty name
// and the machine's own zone, would mean something else on every machine.
func zone(name string) (*time.Location, error) {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	if name != "" && name != "Local" {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	return nil, fmt.Errorf("%q is no IANA time zone; want one as in Europe/Berlin, America/New_York or UTC", name)
}
