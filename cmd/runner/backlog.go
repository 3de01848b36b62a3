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
// whatever its fields hold; one that does not is rejected, and the rest goes on.
func readBacklog(file string, data []byte) (rows []row, bad []rejected, err error) {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:8])
	in := csv.NewReader(bytes.NewReader(data))
	header, err := in.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: read header: %w: the first line must name the columns", file, err)
	}
	header = slices.Clone(header)
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, bad, nil
		}
		var pe *csv.ParseError
		switch {
		case errors.As(err, &pe):
			bad = append(bad, rejected{Line: pe.StartLine, Error: fmt.Sprintf("%s:%d: %s", file, pe.StartLine, advice(pe, len(fields), len(header)))})
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := in.FieldPos(0)
		r := row{Line: line, Fields: map[string]string{}, Key: fmt.Sprintf("%s:%d", hash, line)}
		for i, name := range header {
			r.Fields[name] = fields[i]
		}
		rows = append(rows, r)
	}
}

// advice says what is wrong with a row and what to write instead.
func advice(pe *csv.ParseError, got, want int) string {
	switch {
	case errors.Is(pe.Err, csv.ErrFieldCount):
		return fmt.Sprintf("%d fields, the header names %d: add the missing fields, or quote a field that contains a comma", got, want)
	case errors.Is(pe.Err, csv.ErrBareQuote):
		return fmt.Sprintf(`column %d: a quote inside a field that is not quoted: write "say ""so"" twice" around the field`, pe.Column)
	case errors.Is(pe.Err, csv.ErrQuote):
		return fmt.Sprintf(`column %d: a quoted field does not end where it should: double the quotes inside it`, pe.Column)
	default:
		return pe.Err.Error()
	}
}
