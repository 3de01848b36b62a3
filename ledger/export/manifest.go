package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// version is that of manifests.
const version = 1

// A Manifest says what an export holds. It is written last.
type Manifest struct {
	Version int            `json:"daybook_export"`
	Format  Format         `json:"format"`
	Filter  Filter         `json:"filter"`
	Upto    events.RunID   `json:"upto_run,omitzero"` // the newest run when it began
	Began   time.Time      `json:"began_at"`
	Ended   time.Time      `json:"ended_at"`
	Counts  map[Kind]int64 `json:"counts"`
	First   *Edge          `json:"first_event,omitempty"`
	Last    *Edge          `json:"last_event,omitempty"`
	Holes   int            `json:"holes"` // runs whose archive had one; see [Head]
	Files   []File         `json:"files"`
}

// An Edge is the first or the last event of an export, in the order of its lines.
type Edge struct {
	Run  events.RunID `json:"run_id"`
	Seq  uint64       `json:"seq"`
	Time time.Time    `json:"time"`
}

// A File is one of an export.
type File struct {
	Kind   Kind        `json:"kind"`
	Name   string      `json:"name"`
	Lines  int64       `json:"lines"` // of CSV without the header; a quoted line break is none
	Bytes  int64       `json:"bytes"`
	SHA256 events.Hash `json:"sha256"`
}

// Filter is a [ledger.ExportFilter] as manifests have it.
type Filter struct {
	Run     events.RunID `json:"run_id,omitzero"`
	Tenant  string       `json:"tenant,omitempty"`
	Session string       `json:"session_id,omitempty"`
	Owner   string       `json:"owner,omitempty"`
	Agent   string       `json:"agent,omitempty"`
	Tool    string       `json:"tool,omitempty"`
	Since   time.Time    `json:"since,omitzero"`
	Until   time.Time    `json:"until,omitzero"`
}

func filterOf(f ledger.ExportFilter) Filter {
	return Filter{f.Run, f.Tenant, f.Session, f.Owner, f.Agent, f.Tool, f.Since.UTC(), f.Until.UTC()}
}

// ledger is the filter as the ledger takes it, without its last run.
func (f Filter) ledger() ledger.ExportFilter {
	return ledger.ExportFilter{Run: f.Run, Tenant: f.Tenant, Session: f.Session, Owner: f.Owner, Agent: f.Agent, Tool: f.Tool, Since: f.Since, Until: f.Until}
}

// layout is where the files of an export are.
type layout struct {
	dir    string
	single string // name of the one file that was asked for; empty: a directory of our own
}

// layoutOf reads what people say: a directory, or a file if its name ends in .jsonl,
// .ndjson, .json or .csv.
func layoutOf(to string) layout {
	info, err := os.Stat(to)
	isDir := strings.HasSuffix(to, string(filepath.Separator)) || err == nil && info.IsDir()
	if !isDir && slices.Contains([]string{".jsonl", ".ndjson", ".json", ".csv"}, filepath.Ext(to)) {
		return layout{dir: filepath.Dir(to), single: filepath.Base(to)}
	}
	return layout{dir: filepath.Clean(to)}
}

func (l layout) name(k Kind, f Format) string {
	switch {
	case l.single != "" && k != Heads:
		return l.single
	case l.single != "":
		return l.single + ".heads.jsonl"
	case k == Heads:
		return "heads.jsonl"
	case f == CloudEvents:
		return string(k) + ".cloudevents.jsonl"
	}
	return string(k) + "." + string(f)
}

func (l layout) manifest() string {
	if l.single != "" {
		return filepath.Join(l.dir, l.single+".manifest.json")
	}
	return filepath.Join(l.dir, "manifest.json")
}

// partial is where an export that has not ended keeps how far it is.
func (l layout) partial() string { return l.manifest() + ".partial" }

// Read reads the manifest of the export at path, and returns the SHA-256 of its bytes.
// The error wraps [fs.ErrNotExist] if there is none, and then names what to do if an
// export was broken off there.
func Read(path string) (Manifest, events.Hash, error) {
	l := layoutOf(path)
	b, err := os.ReadFile(l.manifest())
	if errors.Is(err, fs.ErrNotExist) {
		if _, perr := os.Stat(l.partial()); perr == nil {
			err = fmt.Errorf("the export has not ended: give the same ledgerctl export again, it goes on where it was: %w", err)
		}
	}
	if err != nil {
		return Manifest{}, events.Hash{}, fmt.Errorf("read export: %w", err)
	}
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, events.Hash{}, fmt.Errorf("read %s: %w", l.manifest(), err)
	}
	if m.Version != version {
		return Manifest{}, events.Hash{}, fmt.Errorf("read %s: it is of version %d, want %d", l.manifest(), m.Version, version)
	}
	return m, sha256.Sum256(b), nil
}

// replace writes a file so that after a crash there is the old one or the new one.
func replace(path string, v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return nil, err
	}
	return b, syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// hashPrefix adds the first n bytes of r to h.
func hashPrefix(h io.Writer, r io.Reader, n int64) error {
	got, err := io.Copy(h, io.LimitReader(r, n))
	if err == nil && got != n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
