package ledger

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/daybookhq/daybook/events"
)

// SwitchMode says what becomes of a tool's destructive calls. Stored; never renamed.
type SwitchMode string

// Switch modes.
const (
	SwitchOn     SwitchMode = "on"     // the default
	SwitchPaused SwitchMode = "paused" // calls wait until it is on again
	SwitchOff    SwitchMode = "off"    // calls are refused, and the model is told
)

// EveryTool is the tool name of the switch that holds for all tools of a
// tenant, beside their own: the stricter one counts.
const EveryTool = "*"

// SwitchChange sets a switch. All fields are required.
type SwitchChange struct {
	Tenant, Tool string
	Mode         SwitchMode
	// By is the authenticated caller, as in [Decision].
	By     string
	Reason string
}

// Switch is one change of a switch; the newest per tool is how it stands.
type Switch struct {
	SwitchChange
	Seq  int64  // over all switches, growing
	Role string // database role of whoever set it (PostgreSQL only)
	At   time.Time
	// Woken counts the runs that waited and were told (of a change just made).
	Woken int
}

// SwitchFilter selects switches.
type SwitchFilter struct {
	Tenant string // empty = all
	// All lists every change ever made, oldest first, instead of how things stand.
	All   bool
	Limit int // 0 = 100
	// After is the keyset: Seq of the last row seen.
	After int64
}

// Switches stop the destructive calls of a tool at once. Safe for concurrent use.
type Switches interface {
	// SetSwitch sets a switch and keeps the change. Once it has returned, no
	// execution begins that the switch forbids; those that have begun go on.
	// Runs that waited for the tool are woken unless it is paused still.
	SetSwitch(ctx context.Context, c SwitchChange) (Switch, error)
	// Switches lists those that are not on, or with All every change.
	Switches(ctx context.Context, f SwitchFilter) ([]Switch, error)
}

// SwitchKey is the park_key of runs that wait for a paused tool.
func SwitchKey(tenant, tool string) events.Hash {
	return sha256.Sum256([]byte("daybook/switch/1\x00" + tenant + "\x00" + tool))
}
