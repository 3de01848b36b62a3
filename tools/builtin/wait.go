package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// DefaultMaxWait is the longest wait of [Wait] and [WaitForSignal] unless told otherwise.
const DefaultMaxWait = 30 * 24 * time.Hour

// Wait returns wait, with which the model lets time pass: the run is parked
// and costs nothing meanwhile. longest bounds a wait; 0 means [DefaultMaxWait].
func Wait(longest time.Duration) tools.Tool {
	if longest <= 0 {
		longest = DefaultMaxWait
	}
	return must(tools.New(tools.Definition{
		Name: "wait",
		Description: fmt.Sprintf("Waits for a number of seconds, or until a moment; give one of the two. Nothing else happens meanwhile. "+
			"The longest wait is %d seconds.", int64(longest/time.Second)),
		Aliases: []string{"sleep", "delay", "timer"},
		Effect:  tools.Readonly,
		Trust:   tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Seconds int64  `json:"seconds,omitempty" jsonschema:"how long to wait"`
		Until   string `json:"until,omitempty" jsonschema:"the moment to wait for, as in 2027-01-31T09:00:00Z"`
	},
	) (any, error) {
		now := time.Now()
		d, err := waitOf(in.Seconds, in.Until, now, longest)
		if err != nil {
			return nil, err
		}
		if d <= 0 {
			return "that moment has passed", nil
		}
		return tools.HandedOff{
			Reason: events.ParkTimer, For: d, ExpiresAs: "waited until " + now.Add(d).UTC().Format(time.RFC3339),
		}, nil
	}))
}

func waitOf(seconds int64, until string, now time.Time, longest time.Duration) (time.Duration, error) {
	bad := func(format string, args ...any) (time.Duration, error) {
		return 0, &tools.ArgumentError{Tool: "wait", Problems: []string{fmt.Sprintf(format, args...)}}
	}
	most := int64(longest / time.Second)
	switch {
	case (seconds != 0) == (until != ""):
		return bad("give either seconds or until")
	case seconds < 0:
		return bad("seconds is %d: want 1 or more", seconds)
	case seconds > most:
		return bad("seconds is %d: the longest wait is %d", seconds, most)
	case seconds > 0:
		return time.Duration(seconds) * time.Second, nil
	}
	t, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return bad("until is %q: want a moment with a time zone, as in 2027-01-31T09:00:00Z", until)
	}
	if d := t.Sub(now); d <= longest {
		return d, nil
	}
	return bad("until is %s: the longest wait is %d seconds from now, %s", until, most, now.Add(longest).UTC().Format(time.RFC3339))
}
