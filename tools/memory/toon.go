package memory

import (
	"regexp"
	"strconv"
	"strings"
)

// toonTable writes rows in TOON: a header with the number of rows and the names
// of the columns, then a line for each row.
func toonTable(b *strings.Builder, name string, columns []string, rows [][]string) {
	b.WriteString(name + "[" + strconv.Itoa(len(rows)) + "]{" + strings.Join(columns, ",") + "}:\n")
	for _, row := range rows {
		b.WriteString("  " + strings.Join(row, ",") + "\n")
	}
}

// toonList writes a list of texts in TOON.
func toonList(b *strings.Builder, name string, texts []string) {
	cells := make([]string, len(texts))
	for i, t := range texts {
		cells[i] = toonText(t)
	}
	b.WriteString(name + "[" + strconv.Itoa(len(texts)) + "]: " + strings.Join(cells, ",") + "\n")
}

var toonNumber = regexp.MustCompile(`^-?\d+(\.\d+)?([eE][+-]?\d+)?$`)

// toonText is a text in TOON: quoted where it could be read as something else.
func toonText(s string) string {
	plain := s != "" && s == strings.TrimSpace(s) && s[0] != '-' && s != "true" && s != "false" && s != "null" &&
		!toonNumber.MatchString(s) && !strings.ContainsFunc(s, toonSpecial)
	if plain {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case breaksLine(r):
			b.WriteByte(' ') // TOON has no escape for it
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func toonSpecial(r rune) bool { return strings.ContainsRune(`,:"\[]{}`, r) || breaksLine(r) }

// breaksLine reports whether r could make a reader see a new line, or nothing.
func breaksLine(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029'
}

// number is a score with at most four digits after the point.
func number(f float64) string {
	s := strings.TrimRight(strconv.FormatFloat(f, 'f', 4, 64), "0")
	return strings.TrimSuffix(s, ".")
}

// oneLine is s for a bullet.
func oneLine(s string) string { return strings.Join(strings.Fields(strings.Map(flat, s)), " ") }

func flat(r rune) rune {
	if breaksLine(r) {
		return ' '
	}
	return r
}
