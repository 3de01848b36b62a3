package main

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// terminal is what is known of where output goes. The zero value is no
// terminal: nothing is cut and nothing is coloured.
type terminal struct {
	width int
	color bool
}

// terminalOf looks at w. COLUMNS overrules the width, NO_COLOR takes colours off.
func terminalOf(w io.Writer) terminal {
	f, ok := w.(*os.File)
	if !ok {
		return terminal{}
	}
	width, ok := windowWidth(f)
	if !ok {
		return terminal{}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	if width <= 0 {
		width = 80
	}
	return terminal{width: max(width, 40), color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// windowWidth asks the terminal driver; ok is false for what is no terminal.
func windowWidth(f *os.File) (columns int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), errno == 0
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
