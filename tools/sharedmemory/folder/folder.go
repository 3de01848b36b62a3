// Package folder is a provider of shared memory: each store is a folder of files.
//
// It reads through [os.Root], so no path and no link leads out of a folder. Links
// inside it are not followed either, and hard links, devices, pipes and what
// begins with a dot are not there. A bind mount is the host's own doing.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// Store is a folder that is read.
type Store struct {
	Info sharedmemory.Info
	// Dir is where the documents are. It is opened for each list and read: if it
	// is gone, the store is not found, and once it is back it is read again.
	Dir string
}

// Config configures a [Provider].
type Config struct {
	Stores []Store
	// Allow says which stores a call may see; nil shows all. It may be called by
	// several goroutines.
	Allow func(c sharedmemory.Context, store string) bool
}

// Provider is always connected. Make one with [New]. Safe for concurrent use.
type Provider struct {
	stores []*store
	allow  func(sharedmemory.Context, string) bool
}

// New returns a provider of folders, which need not be there yet.
func New(c Config) (*Provider, error) {
	p := &Provider{allow: c.Allow}
	seen := map[string]bool{}
	for _, s := range c.Stores {
		switch {
		case !sharedmemory.ValidStoreID(s.Info.ID):
			return nil, fmt.Errorf("shared memory: store ID %q: want 1 to 64 letters, digits, _ . and -, without __", s.Info.ID)
		case seen[s.Info.ID]:
			return nil, fmt.Errorf("shared memory: two stores of the ID %q", s.Info.ID)
		case s.Dir == "":
			return nil, fmt.Errorf("shared memory: store %q has no folder", s.Info.ID)
		}
		seen[s.Info.ID] = true
		p.stores = append(p.stores, &store{info: s.Info, dir: s.Dir})
	}
	return p, nil
}

// Snapshot implements [sharedmemory.Provider].
func (p *Provider) Snapshot(ctx context.Context, c sharedmemory.Context) (sharedmemory.Snapshot, error) {
	if ctx.Err() != nil {
		return sharedmemory.Snapshot{}, context.Cause(ctx)
	}
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: func(yield func(sharedmemory.Store) bool) {
		for _, s := range p.stores {
			if (p.allow == nil || p.allow(c, s.info.ID)) && !yield(s) {
				return
			}
		}
	}}, nil
}

type store struct {
	info sharedmemory.Info
	dir  string
}

func (s *store) Info() sharedmemory.Info { return s.info }

// open opens the folder; the error is a StoreError.
func (s *store) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, &sharedmemory.StoreError{Kind: sharedmemory.StoreNotFound, Err: err}
	}
	return root, told(err)
}

// told is err in the words of shared memory.
func told(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return &sharedmemory.StoreError{Kind: sharedmemory.Refused, Reason: "permission_denied", Message: "it may not be read", Err: err}
	}
	return &sharedmemory.StoreError{Kind: sharedmemory.Transient, Err: err}
}

func (s *store) List(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
	return func(yield func(sharedmemory.Entry, error) bool) {
		root, err := s.open()
		if err != nil {
			yield(sharedmemory.Entry{}, err)
			return
		}
		defer func() { _ = root.Close() }() // nothing was written
		from, ok := inside(root, prefix)
		if !ok {
			return
		}
		err = fs.WalkDir(root.FS(), from, func(name string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, fs.ErrNotExist):
				return nil // gone while it was listed
			case err != nil:
				return told(err)
			case name != "." && strings.HasPrefix(d.Name(), ".") && d.IsDir():
				return fs.SkipDir
			case strings.HasPrefix(d.Name(), ".") || !d.Type().IsRegular():
				return nil
			}
			fi, err := d.Info()
			if err != nil || links(fi) > 1 {
				return nil // gone, or a name of a file that may be elsewhere too
			}
			e := sharedmemory.Entry{Path: "/" + name, Bytes: new(fi.Size()), UpdatedAt: fi.ModTime().UTC().Format(time.RFC3339)}
			if !yield(e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(sharedmemory.Entry{}, err)
		}
	}
}

var errStop = errors.New("the caller has enough")

// inside returns the name below the root of the folder prefix. It is not ok if
// that is no folder.
func inside(root *os.Root, prefix string) (string, bool) {
	if prefix == "" {
		return ".", true
	}
	name := strings.TrimPrefix(prefix, "/")
	fi, err := lstat(root, name)
	return name, err == nil && fi.IsDir()
}

// lstat looks at name without following a link anywhere in it: what is behind
// one is not there.
func lstat(root *os.Root, name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		fi, err := root.Lstat(name[:i])
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			return nil, fs.ErrNotExist
		}
	}
	return root.Lstat(name)
}

func (s *store) Read(ctx context.Context, document string) (sharedmemory.Value, error) {
	if ctx.Err() != nil {
		return sharedmemory.Value{}, context.Cause(ctx)
	}
	if sharedmemory.CheckDocumentPath(document) != nil {
		return sharedmemory.Absent(), nil
	}
	root, err := s.open()
	if err != nil {
		return sharedmemory.Value{}, err
	}
	defer func() { _ = root.Close() }()
	name := path.Clean(document)[1:]
	before, err := lstat(root, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !before.Mode().IsRegular() {
		return sharedmemory.Absent(), nil
	}
	if err != nil {
		return sharedmemory.Value{}, told(err)
	}
	// A pipe that came into its place would wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return sharedmemory.Absent(), nil
	}
	if err != nil {
		return sharedmemory.Value{}, told(err)
	}
	defer func() { _ = f.Close() }()
	return read(f, before)
}

// read reads f if it is what lstat has seen.
func read(f *os.File, before fs.FileInfo) (sharedmemory.Value, error) {
	fi, err := f.Stat()
	switch {
	case err != nil:
		return sharedmemory.Value{}, told(err)
	case !os.SameFile(before, fi) || !fi.Mode().IsRegular() || links(fi) > 1:
		return sharedmemory.Absent(), nil
	case fi.Size() > sharedmemory.MaxRead:
		return sharedmemory.Oversize(fi.Size()), nil
	}
	b, err := io.ReadAll(io.LimitReader(f, sharedmemory.MaxRead+1))
	switch {
	case err != nil:
		return sharedmemory.Value{}, told(err)
	case len(b) > sharedmemory.MaxRead: // it has grown meanwhile, or hides its size
		return sharedmemory.Oversize(int64(len(b))), nil
	}
	return sharedmemory.Found(sharedmemory.Document{Content: string(b), UpdatedAt: fi.ModTime().UTC().Format(time.RFC3339)}), nil
}
