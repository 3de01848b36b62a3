package prompt

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text reads the bytes of a text file: a byte order mark goes, line ends become \n.
// The error says what is wrong, on which line, and what to do; it does not name the
// file.
func Text(b []byte) (string, error) {
	switch {
	case len(b) > MaxBytes:
		return "", fmt.Errorf("it has over %d bytes: make it shorter", MaxBytes)
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}), bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return "", fmt.Errorf("it is UTF-16 text: save it as UTF-8")
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		line := func() int { return bytes.Count(b[:i], []byte("\n")) + 1 }
		switch {
		case r == utf8.RuneError && n <= 1:
			return "", fmt.Errorf("line %d: it is not UTF-8 text: save it as UTF-8", line())
		case r == 0:
			return "", fmt.Errorf("line %d: there is a NUL byte: this is no text", line())
		}
		i += n
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b)), nil
}
