package main

import (
	"io"
	"regexp"
)

// maskPasswords puts xxxxx for the passwords in URLs and connection strings,
// whoever writes them: libraries quote what they cannot read.
func maskPasswords(w io.Writer) io.Writer {
	if _, ok := w.(masking); ok {
		return w
	}
	return masking{w}
}

// masking is used a line at a time: by slog, and for messages.
type masking struct{ to io.Writer }

var (
	inURL   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'` + "`" + `/?#]*@`)
	inPairs = regexp.MustCompile(`(?i)(\bpassword=)('[^']*'|[^\s&"']+)`)
)

func (m masking) Write(b []byte) (int, error) {
	masked := inURL.ReplaceAll(b, []byte("${1}xxxxx@"))
	masked = inPairs.ReplaceAll(masked, []byte("${1}xxxxx"))
	if _, err := m.to.Write(masked); err != nil {
		return 0, err
	}
	return len(b), nil
}
