// Package leakscan searches the stores of a system for secrets that should not be
// there: every table of the database, files byte by byte, messages. It tells where one is,
// and never what it is. ledgerctl leakscan and tests that plant canaries use it.
package leakscan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// How a secret was found.
const (
	Given = "secret" // it is one of those that were given
	Rule  = "rule"   // it looks like one
)

// A Finding is a place where a secret stands.
type Finding struct {
	Store  string       `json:"store"` // table, file or stream
	Name   string       `json:"name"`  // of the table, file or stream
	Column string       `json:"column,omitempty"`
	Row    string       `json:"row,omitempty"` // rowid, partition and ctid, offset, or sequence
	Run    events.RunID `json:"run_id,omitzero"`
	Seq    int64        `json:"seq,omitempty"`
	How    string       `json:"how"`    // secret or rule
	Secret string       `json:"secret"` // the name under which it was given, or of the rule
	// Fingerprint is that of markers of the default tenant; of those that are given, it
	// is what a redacted occurrence shows.
	Fingerprint string `json:"fingerprint"`
}

// Scanner searches. Redactor knows the secrets that are given. It is not safe for
// concurrent use.
type Scanner struct {
	Redactor *redact.Redactor
	// Rules: what looks like a credential is found too, in texts.
	Rules bool
	// Found is called with each finding; an error of it ends the search.
	Found func(Finding) error
	// Read is told how much was read: rows and messages, or bytes of files; nil = nobody.
	Read func(rows, bytes int64)

	Rows, Bytes int64
	Secrets     int64 // findings of what was given
	Looks       int64 // findings by rules
}

func (s *Scanner) read(rows, bytes int64) {
	s.Rows, s.Bytes = s.Rows+rows, s.Bytes+bytes
	if s.Read != nil {
		s.Read(s.Rows, s.Bytes)
	}
}

// Value searches one value; at says where it is.
func (s *Scanner) Value(at Finding, value string) error {
	given := s.Redactor.Find(value)
	for _, f := range given {
		at.How, at.Secret, at.Fingerprint = Given, f.Name, f.Fingerprint
		s.Secrets++
		if err := s.Found(at); err != nil {
			return err
		}
	}
	if !s.Rules || !utf8.ValidString(value) {
		return nil
	}
	for _, f := range s.Redactor.FindByRules(value) {
		if slices.ContainsFunc(given, func(g redact.Found) bool { return g.Name == f.Name }) {
			continue
		}
		at.How, at.Secret, at.Fingerprint = Rule, f.Name, f.Fingerprint
		s.Looks++
		if err := s.Found(at); err != nil {
			return err
		}
	}
	return nil
}

// own are columns whose values are made by the program and look like keys: they hold
// no text of anybody's. What is given is searched for in them too.
var own = map[string]bool{
	"tenant_keys.key": true, "owner_keys.key": true, "goose_db_version.tstamp": true,
}

// Tables searches every table of a database that the catalogue has.
func (s *Scanner) Tables(ctx context.Context, db sqlstore.DB) error {
	return sqlstore.Cells(ctx, db, func(int64) { s.read(1, 0) }, func(c sqlstore.Cell) error {
		rules := s.Rules
		if own[c.Table+"."+c.Column] {
			s.Rules = false
		}
		defer func() { s.Rules = rules }()
		return s.Value(Finding{Store: "table", Name: c.Table, Column: c.Column, Row: c.Row, Run: c.Run, Seq: c.Seq}, string(c.Value))
	})
}

const (
	chunk = 1 << 20
	// overlap is how much of a chunk is looked at again with the next one: longer than
	// any secret that is registered, in its longest encoding.
	overlap = 64 << 10
)

// Reader searches bytes, piece by piece, for what is given: rules are for texts. A
// secret that is longer than 64 KiB in its encoding may be missed where two pieces meet.
func (s *Scanner) Reader(at Finding, r io.Reader) error {
	buf := make([]byte, 0, chunk+overlap)
	var offset int64
	seen := map[string]bool{}
	for {
		n, err := io.ReadFull(r, buf[len(buf):min(cap(buf), len(buf)+chunk)])
		buf = buf[:len(buf)+n]
		s.read(0, int64(n))
		if n > 0 {
			for _, f := range s.Redactor.Find(string(buf)) {
				// What lies in the overlap is seen twice.
				at.How, at.Secret, at.Fingerprint, at.Row = Given, f.Name, f.Fingerprint, fmt.Sprintf("within %d to %d", offset, offset+int64(len(buf)))
				if seen[f.Name] {
					continue
				}
				seen[f.Name] = true
				s.Secrets++
				if err := s.Found(at); err != nil {
					return err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		keep := min(len(buf), overlap)
		offset += int64(len(buf) - keep)
		buf = append(buf[:0], buf[len(buf)-keep:]...)
	}
}

// Dir searches every file below dir, byte by byte: also what a database has deleted
// and not overwritten, its log, and the files of streams. Files that go away meanwhile are left out.
func (s *Scanner) Dir(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path) // path lies below it
		err = s.Reader(Finding{Store: "file", Name: name}, f)
		return errors.Join(err, f.Close())
	})
}

// DirSize is how many bytes Dir reads.
func DirSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // only an estimate
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// Message searches a message of a stream: subject, headers and body.
func (s *Scanner) Message(stream, subject string, sequence uint64, header map[string][]string, data []byte) error {
	s.read(1, 0)
	at := Finding{Store: "stream", Name: stream, Row: fmt.Sprint(sequence)}
	at.Column = "subject"
	if err := s.Value(at, subject); err != nil {
		return err
	}
	for k, vs := range header {
		at.Column = "header " + k
		for _, v := range vs {
			if err := s.Value(at, v); err != nil {
				return err
			}
		}
	}
	at.Column = "data"
	return s.Value(at, string(data))
}
