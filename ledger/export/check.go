package export

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// A Fault is what [Check] has to say. Kind is [ledger.Tampered] or [ledger.Incomplete].
type Fault struct {
	File string             `json:"file"`
	Line int64              `json:"line,omitempty"` // 0 = the file as a whole; of CSV the record
	Run  events.RunID       `json:"run,omitzero"`
	Seq  uint64             `json:"seq,omitempty"`
	Kind ledger.FindingKind `json:"kind"`
	Text string             `json:"text"`
}

// Checked counts what was checked.
type Checked struct {
	Runs, Events, Calls  int64
	Tampered, Incomplete int64
}

// Check reads an export back, without any ledger: each file against the manifest, each
// event against its hash and the one before it, each run against its head, and calls
// (as JSON) against what the events fold to. It calls found with each fault; memory does
// not grow with the export. What it cannot see is an export of which all was made anew,
// the manifest too: compare the hash of that, which [Read] gives, with one kept elsewhere, or the heads with the ledger, see [Compare].
func Check(ctx context.Context, path string, done func(events int64), found func(Fault) error) (Checked, error) {
	m, _, err := Read(path)
	if err != nil {
		return Checked{}, err
	}
	c := &check{ctx: ctx, l: layoutOf(path), m: m, done: done, found: found}
	err = c.files()
	if err == nil {
		err = c.histories()
	}
	return c.sum, err
}

// CountEvents is how many events the manifest says there are.
func (m Manifest) CountEvents() int64 { return m.Counts[Events] }

type check struct {
	ctx   context.Context
	l     layout
	m     Manifest
	done  func(int64)
	found func(Fault) error
	sum   Checked
}

func (c *check) fault(f Fault, format string, args ...any) error {
	f.Text = fmt.Sprintf(format, args...)
	if f.Kind == ledger.Tampered {
		c.sum.Tampered++
	} else {
		c.sum.Incomplete++
	}
	return c.found(f)
}

// files compares each file with what the manifest says of it.
func (c *check) files() error {
	for _, f := range c.m.Files {
		if f.Name != filepath.Base(f.Name) || f.Name != c.l.name(f.Kind, c.m.Format) {
			if err := c.fault(Fault{File: f.Name, Kind: ledger.Tampered}, "the manifest names it as %s, which it would not be called", f.Kind); err != nil {
				return err
			}
			continue
		}
		in, err := os.Open(filepath.Join(c.l.dir, f.Name))
		if errors.Is(err, fs.ErrNotExist) {
			if err := c.fault(Fault{File: f.Name, Kind: ledger.Incomplete}, "it is missing"); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(h, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		if got := events.Hash(h.Sum(nil)); got != f.SHA256 {
			err = c.fault(Fault{File: f.Name, Kind: ledger.Tampered}, "it is not what was written: %d bytes with SHA-256 %s, the manifest says %d with %s", n, got, f.Bytes, f.SHA256)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines reads one file line by line. A file that is missing has none.
type lines struct {
	name string
	f    *os.File
	r    *bufio.Reader
	csv  *csv.Reader
	n    int64
	bad  error // what is wrong with its header
}

func (c *check) open(k Kind) (*lines, error) {
	l := &lines{name: c.l.name(k, c.m.Format)}
	if !slices.ContainsFunc(c.m.Files, func(f File) bool { return f.Kind == k }) {
		return l, nil
	}
	f, err := os.Open(filepath.Join(c.l.dir, l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	l.f, l.r = f, bufio.NewReaderSize(f, 1<<16)
	if c.m.Format == CSV && k != Heads {
		l.csv = csv.NewReader(l.r)
		l.csv.FieldsPerRecord, l.csv.ReuseRecord = -1, true
		got, err := l.csv.Read()
		if want := names(k); err != nil || !slices.Equal(got, want) {
			l.bad = fmt.Errorf("its first line is %.200q, want %q", got, want)
		}
	}
	return l, nil
}

func (l *lines) close() {
	if l.f != nil {
		_ = l.f.Close() // only read
	}
}

// maxLine bounds a line that is read: an event as CloudEvent, and calls that carry as much.
const maxLine = 4*events.MaxEventBytes + 64<<10

// next returns the next line; io.EOF after the last.
func (l *lines) next() (line []byte, record []string, err error) {
	if l.f == nil {
		return nil, nil, io.EOF
	}
	if l.csv != nil {
		record, err = l.csv.Read()
		if err == nil {
			l.n++
		}
		return nil, record, err
	}
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, nil, fmt.Errorf("%s line %d has over %d bytes: it is none of an export", l.name, l.n+1, maxLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = nil // cut off in the middle: it will not be read as anything
		}
		if err != nil {
			return nil, nil, err
		}
		l.n++
		return bytes.TrimSuffix(line, []byte("\n")), nil, nil
	}
}

// event reads the next event. bad says what is wrong with a line that is none.
func (l *lines) event(f Format) (s events.Sealed, bad, err error) {
	line, record, err := l.next()
	var perr *csv.ParseError
	if errors.As(err, &perr) {
		return s, perr, nil
	}
	if err != nil {
		return s, nil, err
	}
	var e EventLine
	switch f {
	case CSV:
		if len(record) != 13 {
			return s, fmt.Errorf("it has %d fields, want 13", len(record)), nil
		}
		e.Event = json.RawMessage(record[12])
		bad = e.Hash.UnmarshalText([]byte(record[11]))
	case CloudEvents:
		var ce CloudEvent
		bad = json.Unmarshal(line, &ce)
		e = EventLine{ce.Hash, ce.Data}
	default:
		bad = json.Unmarshal(line, &e)
	}
	if bad == nil {
		s, bad = events.Parse(e.Event, e.Hash)
	}
	if bad == nil {
		bad = l.beside(f, s, line, record)
	}
	return s, bad, nil
}

// beside says how what stands beside an event's own bytes is not what is written there:
// it is what a spreadsheet or a consumer sorts by, and no hash holds it. A version that
// writes more there is one more of manifests.
func (l *lines) beside(f Format, s events.Sealed, line []byte, record []string) error {
	want, err := eventLine(f, s)
	if err != nil {
		return err
	}
	if f != CSV {
		if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(line, want) {
			return fmt.Errorf("what stands beside the event is not of it: %.400q, want %.400q", line, want)
		}
		return nil
	}
	columns, err := csv.NewReader(bytes.NewReader(want)).Read()
	if err != nil {
		return err
	}
	for i, name := range names(Events) {
		if record[i] != columns[i] {
			return fmt.Errorf("column %s is %.200q, that of the event is %.200q", name, record[i], columns[i])
		}
	}
	return nil
}

// head reads the next head.
func (l *lines) head() (h Head, bad, err error) {
	line, _, err := l.next()
	if err != nil {
		return h, nil, err
	}
	return h, json.Unmarshal(line, &h), nil
}
