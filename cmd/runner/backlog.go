package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// row is one line of a backlog that parses as CSV.
type row struct {
	Line   int               // where it starts, from 1
	Fields map[string]string // by the name in the header
	Key    string            // client key: hash of the file and line
}

// rejected is one that does not.
type rejected struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// readBacklog reads a CSV file with a header. A row that parses becomes a run
// whatever its fields hold; one that does not is rejected, and the rest goes
// on: a quote that nobody closes costs its own row, not those below it.
func readBacklog(file string, data []byte) (rows []row, bad []rejected, err error) {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:8])
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	in := csv.NewReader(bytes.NewReader(text))
	header, err := readHeader(file, in)
	if err != nil {
		return nil, nil, err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	above := 0 // lines before the ones that in reads
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, bad, nil
		}
		var pe *csv.ParseError
		switch {
		case errors.As(err, &pe):
			start := above + pe.StartLine
			bad = append(bad, rejected{Line: start, Error: fmt.Sprintf("%s:%d: %s", file, start, advice(pe, fields, header, lines[start-1:above+pe.Line]))})
			if pe.Line > pe.StartLine && !errors.Is(pe.Err, csv.ErrFieldCount) {
				above = start
				in = csv.NewReader(bytes.NewReader(bytes.Join(lines[above:], nil)))
				in.FieldsPerRecord = len(header)
			}
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := in.FieldPos(0)
		line += above
		r := row{Line: line, Fields: map[string]string{}, Key: fmt.Sprintf("%s:%d", hash, line)}
		for i, name := range header {
			r.Fields[name] = fields[i]
		}
		rows = append(rows, r)
	}
}

func readHeader(file string, in *csv.Reader) ([]string, error) {
	header, err := in.Read()
	const want = "write the names of the columns, such as request,order_id,amount"
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: the file is empty: %s", file, want)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:1: read the header: %w: %s", file, err, want)
	}
	header = slices.Clone(header)
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
		switch {
		case header[i] == "":
			return nil, fmt.Errorf("%s:1: column %d has no name: %s", file, i+1, want)
		case slices.Contains(header[:i], header[i]):
			return nil, fmt.Errorf("%s:1: two columns are named %q: rename one", file, header[i])
		}
	}
	return header, nil
}

// advice says what is wrong with a row and what to write instead.
func advice(pe *csv.ParseError, fields, header []string, raw [][]byte) string {
	field := fieldAt(raw, pe.Column, header)
	got, want := len(fields), len(header)
	switch {
	case errors.Is(pe.Err, csv.ErrFieldCount) && got < want:
		return fmt.Sprintf("%d fields, the header names %d: %s missing: add it, if only as a comma", got, want, strings.Join(header[got:], ", "))
	case errors.Is(pe.Err, csv.ErrFieldCount):
		return fmt.Sprintf("%d fields, the header names %d: put quotes around a field that contains a comma", got, want)
	case errors.Is(pe.Err, csv.ErrBareQuote):
		return fmt.Sprintf(`%s: a quote inside a field that is not quoted: put quotes around the field and double those inside: "Eve ""Evie"" Stone"`, field)
	case errors.Is(pe.Err, csv.ErrQuote):
		return fmt.Sprintf(`%s: a quoted field does not end before a comma or the end of the line: close it, and double the quotes inside: "so ""called"""`, field)
	default:
		return pe.Err.Error()
	}
}

// fieldAt names the field at a column (in bytes, from 1) of a row's last line.
// A quote that is still open at the end belongs to the field that it opened.
func fieldAt(raw [][]byte, column int, header []string) string {
	n, quoted := 0, false
	for i, line := range raw {
		if i == len(raw)-1 {
			line = line[:min(max(column-1, 0), len(line))]
		}
		for _, b := range line {
			switch {
			case b == '"':
				quoted = !quoted
			case b == ',' && !quoted:
				n++
			}
		}
	}
	if n >= len(header) {
		return fmt.Sprintf("field %d", n+1)
	}
	return fmt.Sprintf("field %d (%s)", n+1, header[n])
}
