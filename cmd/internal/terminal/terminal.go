// Package terminal is what the commands know of where their output goes.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// Width is how many columns w has: 0 if it is no terminal. COLUMNS overrules
// what the terminal says; what is narrower than 40 columns counts as 40.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	// The driver is asked: an error says that it is no terminal.
	var size struct{ rows, columns, x, y uint16 }
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0
	}
	width := int(size.columns)
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	if width <= 0 {
		width = 80
	}
	return max(width, 40)
}

// Wrap breaks a text between words. A width of zero means one line.
func Wrap(s string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return []string{s}
	}
	var lines []string
	line := ""
	for w := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width:
			lines = append(lines, line)
			line = w
		default:
			line += " " + w
		}
	}
	return append(lines, line)
}

// Clean makes text safe to print on one line: what comes from models and tools
// must not move the cursor, hide text or start a new line.
func Clean(s string) string {
	safe := func(r rune) bool { return r == ' ' || unicode.IsGraphic(r) && r != utf8.RuneError && !blank(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case safe(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// blank reports whether r counts as a letter or a mark and shows as nothing, so
// that texts can be hidden in it. The selector of coloured emoji is let through.
func blank(r rune) bool {
	switch {
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u17b4', r == '\u17b5', r == '\u2800', r == '\u3164', r == '\uffa0':
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r) && r != '\ufe0f'
}
