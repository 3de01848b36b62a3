package main

import (
	"io"
	"os"

	term "github.com/daybookhq/daybook/cmd/internal/terminal"
)

// terminal is what is known of where output goes. The zero value is no
// terminal: nothing is cut and nothing is coloured.
type terminal struct {
	width int
	color bool
}

// terminalOf looks at w. COLUMNS overrules the width, NO_COLOR takes colours off.
func terminalOf(w io.Writer) terminal {
	width := term.Width(w)
	if width == 0 {
		return terminal{}
	}
	return terminal{width: width, color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// A style is how a cell is painted on a terminal with colours.
type style string

// Styles, as SGR parameters.
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (t terminal) paint(s string, st style) string {
	if !t.color || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// stateStyle paints the states of runs, calls and effects alike.
func stateStyle(state string) style {
	switch state {
	case "failed", "error", "in_doubt", "in doubt", "tampered", "blocked", "abandoned":
		return red
	case "parked", "cancelling", "incomplete", "unsettled":
		return yellow
	case "running", "started", "progress":
		return green
	default:
		return plain
	}
}
