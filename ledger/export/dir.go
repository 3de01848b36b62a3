package export

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// keepEvery is after how many lines it is written down how far an export is.
const keepEvery = 5000

// ErrEnded: there is an export that has ended.
var ErrEnded = errors.New("there is an export already that has ended: name another place")

// state is what is written down of an export that has not ended.
type state struct {
	Manifest Manifest `json:"manifest"` // so far
	At       position `json:"at"`
	Hole     *Head    `json:"hole,omitempty"` // the first
	Asked    string   `json:"asked,omitempty"`
}

// files is the sink of an export to disk.
type files struct {
	l     layout
	s     state
	out   []*file
	lines int64 // since it was written down
}

type file struct {
	File
	f   *os.File
	w   *bufio.Writer
	sum hash.Hash
}

// Result is what an export to disk came to.
type Result struct {
	Manifest Manifest
	Path     string      // of the manifest
	SHA256   events.Hash // of the manifest: kept elsewhere, it proves the whole
	Resumed  bool
}

// To writes an export to a directory or, if the name is that of one (*.jsonl, *.csv), to a
// file with its manifest beside it. If it is broken off, at any instant, the same call goes
// on: no line is lost or written twice. It has all runs that were there when it began, each
// as far as it was when its turn came. Errors: [ErrEnded]; [ErrIncomplete] with a Result
// that is good but for the holes.
func To(ctx context.Context, src ledger.Exports, o Options, to string, now func() time.Time) (Result, error) {
	if err := o.check(); err != nil {
		return Result{}, err
	}
	l := layoutOf(to)
	if l.single != "" && len(o.Kinds) != 1 {
		return Result{}, fmt.Errorf("one file has lines of one kind, not %q: name one, or a directory", o.Kinds)
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	if _, err := os.Stat(l.manifest()); err == nil {
		return Result{}, fmt.Errorf("export to %s: %w", to, ErrEnded)
	}
	fsink := &files{l: l}
	resumed, err := fsink.open(ctx, src, o, now)
	if err != nil {
		return Result{}, errors.Join(fmt.Errorf("export to %s: %w", to, err), fsink.close())
	}
	o.Filter = fsink.s.Manifest.Filter.ledger()
	o.Filter.Upto = fsink.s.Manifest.Upto
	o.Done(fsink.s.At.Events)
	err = (&walk{src: src, o: o, to: fsink}).all(ctx, fsink.s.At)
	if err = errors.Join(err, fsink.close()); err != nil {
		return Result{}, fmt.Errorf("export to %s: %w", to, err)
	}
	r := Result{Manifest: fsink.s.Manifest, Path: l.manifest(), Resumed: resumed}
	r.Manifest.Ended = now().UTC()
	for _, f := range fsink.out {
		r.Manifest.Files = append(r.Manifest.Files, f.File)
	}
	b, err := replace(l.manifest(), r.Manifest)
	if err == nil {
		err = errors.Join(os.Remove(l.partial()), syncDir(l.dir))
	}
	if err != nil {
		return Result{}, fmt.Errorf("export to %s: %w", to, err)
	}
	r.SHA256 = sha256.Sum256(b)
	if r.Manifest.Holes > 0 {
		return r, holes(r.Manifest.Holes, *fsink.s.Hole)
	}
	return r, nil
}

// open begins, or goes on where it was written down.
func (f *files) open(ctx context.Context, src ledger.Exports, o Options, now func() time.Time) (resumed bool, err error) {
	b, err := os.ReadFile(f.l.partial())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.begin(ctx, src, o, now); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	default:
		if err := f.goOn(b, o); err != nil {
			return true, err
		}
		resumed = true
	}
	names := f.s.Manifest.Files
	f.s.Manifest.Files = nil
	for _, k := range names {
		if err := f.file(k, o.Format); err != nil {
			return resumed, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return resumed, nil
}

// begin writes down what is going to be written before any file of it is there, so
// that files which are there are ours only if that is.
func (f *files) begin(ctx context.Context, src ledger.Exports, o Options, now func() time.Time) error {
	size, err := src.ExportSize(ctx, o.Filter)
	if err != nil {
		return err
	}
	m := Manifest{Version: version, Format: o.Format, Filter: filterOf(o.Filter), Upto: size.Last, Began: now().UTC(), Counts: map[Kind]int64{}}
	for _, k := range append(slices.Clone(o.Kinds), Heads) {
		m.Counts[k] = 0
		m.Files = append(m.Files, File{Kind: k, Name: f.l.name(k, o.Format), SHA256: sha256.Sum256(nil)})
	}
	for _, k := range m.Files {
		if _, err := os.Lstat(filepath.Join(f.l.dir, k.Name)); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is there already: remove it, or name another place", k.Name), err)
		}
	}
	f.s = state{Manifest: m, Asked: o.Asked}
	_, err = replace(f.l.partial(), f.s)
	return err
}

// goOn reads what was written down.
func (f *files) goOn(b []byte, o Options) error {
	if err := json.Unmarshal(b, &f.s); err != nil || f.s.Manifest.Version != version {
		return errors.Join(fmt.Errorf("%s cannot be read: remove it and what lies beside it to begin anew", f.l.partial()), err)
	}
	var kinds []Kind
	for _, k := range f.s.Manifest.Files {
		if k.Kind != Heads {
			kinds = append(kinds, k.Kind)
		}
	}
	m, filter := f.s.Manifest, filterOf(o.Filter)
	if f.s.Asked != "" && f.s.Asked == o.Asked {
		filter.Since, filter.Until = m.Filter.Since, m.Filter.Until
	}
	if !slices.Equal(kinds, o.Kinds) || m.Format != o.Format || m.Filter != filter {
		return fmt.Errorf("another export was broken off here, of %q as %s: give the same command again, or name another place", kinds, m.Format)
	}
	return nil
}

// file opens a file and cuts off what was written after it was written down how far
// the export is.
func (f *files) file(k File, format Format) error {
	out := &file{File: k, sum: sha256.New()}
	var err error
	if out.f, err = os.OpenFile(filepath.Join(f.l.dir, k.Name), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	f.out = append(f.out, out)
	if err := hashPrefix(out.sum, out.f, k.Bytes); err != nil {
		return err
	}
	if events.Hash(out.sum.Sum(nil)) != k.SHA256 {
		return errors.New("it was changed since the export was broken off: begin anew in another place")
	}
	if err := out.f.Truncate(k.Bytes); err != nil {
		return err
	}
	if _, err := out.f.Seek(k.Bytes, io.SeekStart); err != nil {
		return err
	}
	out.w = bufio.NewWriterSize(out.f, 1<<16)
	if format == CSV && k.Kind != Heads && k.Bytes == 0 {
		return out.write(header(k.Kind))
	}
	return nil
}

func (o *file) write(line []byte) error {
	_, _ = o.sum.Write(line) // never fails
	o.Bytes += int64(len(line))
	_, err := o.w.Write(line)
	return err
}

func (f *files) put(kind Kind, line []byte) error {
	for _, o := range f.out {
		if o.Kind == kind {
			o.Lines++
			f.lines++
			f.s.Manifest.Counts[kind]++
			return o.write(line)
		}
	}
	return nil
}

func (f *files) row(kind Kind, at Edge, line []byte) error {
	if m := &f.s.Manifest; kind == Events {
		if m.First == nil {
			m.First = &at
		}
		m.Last = &at
	}
	return f.put(kind, line)
}

func (f *files) head(h Head) error {
	if h.Hole > 0 {
		f.s.Manifest.Holes++
		if f.s.Hole == nil {
			f.s.Hole = &h
		}
	}
	line, err := jsonLine(h)
	if err != nil {
		return err
	}
	return f.put(Heads, line)
}

func (f *files) kept(p position) error {
	f.s.At = p
	if f.lines < keepEvery {
		return nil
	}
	return f.keep(p)
}

func (f *files) end() error { return f.keep(f.s.At) }

// keep makes durable what was written, and then how far that is.
func (f *files) keep(p position) error {
	f.lines = 0
	s := f.s
	s.At = p
	for _, o := range f.out {
		if err := errors.Join(o.w.Flush(), o.f.Sync()); err != nil {
			return err
		}
		o.SHA256 = events.Hash(o.sum.Sum(nil))
		s.Manifest.Files = append(s.Manifest.Files, o.File)
	}
	_, err := replace(f.l.partial(), s)
	return err
}

func (f *files) close() (err error) {
	for _, o := range f.out {
		if o.f != nil {
			err = errors.Join(err, o.f.Close())
		}
	}
	return err
}
