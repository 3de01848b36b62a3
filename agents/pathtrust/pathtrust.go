// Package pathtrust says which paths may be read: those that lie below a trusted
// folder once every link on the way is resolved. Whatever cannot be resolved is not
// trusted. (Where text comes from is another matter; tools call that trust.)
package pathtrust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Policy trusts what lies in some folders. The zero value trusts nothing. It does
// not change; safe for concurrent use.
type Policy struct{ roots []string } // absolute, without links

// New trusts the folders roots, which must be there: a link stands for what it
// leads to now, and goes on to do so when it is changed.
func New(roots ...string) (Policy, error) {
	var p Policy
	for _, r := range roots {
		real, err := resolve(r)
		if err != nil {
			return Policy{}, fmt.Errorf("trust folder %q: %w", r, err)
		}
		if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
			return Policy{}, fmt.Errorf("trust folder %q: it is no folder", r)
		}
		p.roots = append(p.roots, real)
	}
	return p, nil
}

func resolve(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// Trusts reports whether path lies in a trusted folder, or is one. A path that
// isn't there, or whose links lead out or in circles, does not.
func (p Policy) Trusts(path string) bool {
	_, _, err := p.place(path)
	return err == nil
}

// place is the trusted folder that path is in, and its name there.
func (p Policy) place(path string) (root, name string, err error) {
	real, err := resolve(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", err
	case err != nil:
		return "", "", fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	for _, r := range p.roots {
		if rel, err := filepath.Rel(r, real); err == nil && filepath.IsLocal(rel) {
			return r, rel, nil
		}
	}
	return "", "", ErrUntrusted
}

// Errors of reading; others are those of the file system.
var (
	// ErrUntrusted: the path lies in no trusted folder.
	ErrUntrusted = errors.New("the path is not trusted")
	// ErrNoFile: it is a folder, a pipe or a device.
	ErrNoFile = errors.New("it is no regular file")
	// ErrTooLarge: the file is larger than the caller wants.
	ErrTooLarge = errors.New("the file is too large")
)

// Read reads the file at path, of maxBytes at most, if it lies in a trusted folder.
// It is opened through that folder: a link that somebody puts in the way after it
// was resolved does not lead out. Errors: [ErrUntrusted], [fs.ErrNotExist],
// [ErrNoFile], [ErrTooLarge], and those of the file system.
func (p Policy) Read(path string, maxBytes int) ([]byte, error) {
	root, name, err := p.place(path)
	if err != nil {
		return nil, err
	}
	return read(root, name, maxBytes)
}

func read(root, name string, maxBytes int) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // nothing was written
	return readRegular(maxBytes, func() (fs.FileInfo, error) { return dir.Stat(name) },
		func(flag int) (*os.File, error) { return dir.OpenFile(name, flag, 0) })
}

// Read reads the file at path like [Policy.Read], wherever it is.
func Read(path string, maxBytes int) ([]byte, error) {
	return readRegular(maxBytes, func() (fs.FileInfo, error) { return os.Stat(path) },
		func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) })
}

func readRegular(maxBytes int, stat func() (fs.FileInfo, error), open func(flag int) (*os.File, error)) ([]byte, error) {
	if fi, err := stat(); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, ErrNoFile // opening a device may do something
	}
	f, err := open(os.O_RDONLY | syscall.O_NONBLOCK) // a pipe that came into its place would wait
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if fi, err := f.Stat(); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, ErrNoFile
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(maxBytes)+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxBytes:
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, maxBytes)
	}
	return b, nil
}
