package access

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
)

const (
	maxFile   = 1 << 20
	maxTokens = 1000
)

// Errors of a tokens file.
var (
	// ErrMode: others may read or write the file.
	ErrMode = errors.New("others may read or write the tokens file: chmod 600 it")
	// ErrNoToken: the file has no such token.
	ErrNoToken = errors.New("no such token in the file")
	// ErrManyTokens: the file is full.
	ErrManyTokens = fmt.Errorf("the file has %d tokens: remove those that are over", maxTokens)
)

// File is a tokens file. It is read again when it changes; while it cannot be
// read, no token is good. Safe for concurrent use.
type File struct {
	path string

	mu     sync.Mutex
	seen   fs.FileInfo // as it was before it was read; nil: read it
	at     time.Time   // when that was
	tokens map[events.Hash]Token
	err    error
}

// racy is how close to its last change a file may have been read and still have
// changed since within the same tick of the file system's clock.
const racy = 2 * time.Second

// OpenFile reads a tokens file, which must be there and be its owner's alone.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	_, err := f.current()
	return f, err
}

// Tokens lists the tokens, in the order of the file.
func (f *File) Tokens() ([]Token, error) {
	text, _, err := readFile(f.path)
	if err != nil {
		return nil, err
	}
	return parseTokens(f.path, text)
}

// find returns the token with a hash, as the file stands now.
func (f *File) find(h events.Hash) (Token, bool, error) {
	all, err := f.current()
	if err != nil {
		return Token{}, false, err
	}
	t, ok := all[h]
	return t, ok && same(t.Hash, h), nil
}

// current returns the tokens of the file, which it reads if it changed.
func (f *File) current() (map[events.Hash]Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen != nil {
		info, err := os.Stat(f.path)
		if err == nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() &&
			info.Mode() == f.seen.Mode() && f.at.Sub(info.ModTime()) > racy {
			return f.tokens, f.err
		}
	}
	f.at = time.Now()
	text, info, err := readFile(f.path)
	var list []Token
	if err == nil {
		list, err = parseTokens(f.path, text)
	}
	f.seen, f.err, f.tokens = info, err, make(map[events.Hash]Token, len(list))
	for _, t := range list {
		f.tokens[t.Hash] = t
	}
	return f.tokens, f.err
}

// readFile reads a file that is nobody else's. info is nil if it could not.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	o, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read tokens: %w", err)
	}
	defer func() { _ = o.Close() }()
	info, err := o.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("read tokens: %w", err)
	}
	if err := own(path, info); err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(o, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has over %d bytes", path, maxFile)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read tokens: %w", err)
	}
	return text, info, nil
}

func own(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("tokens %s: not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("tokens %s has mode %04o: %w", path, info.Mode().Perm(), ErrMode)
	}
	return nil
}

// parseTokens reads the text of a file.
func parseTokens(name string, text []byte) ([]Token, error) {
	f, m := strictyaml.Parse(name, text, 0)
	maps := m.Maps("tokens")
	m.Done("a tokens file")
	var list []Token
	hashes := map[events.Hash]bool{}
	if len(maps) > maxTokens {
		m.Fault("tokens", "at most %d", maxTokens)
	}
	for _, e := range maps {
		t := Token{Name: e.Need("name", "who the record names"), Tenant: e.Text("tenant"), Owner: e.Text("owner")}
		for _, s := range e.Texts("scopes") {
			t.Scopes = append(t.Scopes, Scope(s))
		}
		before := e.FaultCount()
		t.Hash = hashField(e)
		t.Created, t.Expires, t.Revoked = timeField(e, "created", true), timeField(e, "expires", true), timeField(e, "revoked", false)
		e.Done("a token")
		if e.FaultCount() > before {
			continue
		}
		for _, x := range t.faults() {
			e.Fault(x.field, "%s", x.text)
		}
		if hashes[t.Hash] {
			e.Fault("hash", "the file has it twice; keep one")
		}
		hashes[t.Hash] = true
		list = append(list, t)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

func hashField(e *strictyaml.Map) (h events.Hash) {
	text, ok := strings.CutPrefix(e.Need("hash", `"sha256:" and 64 digits, as ledgerctl tokens new does`), "sha256:")
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b) != len(h) {
		// Not quoted: whoever wrote the token itself here should not find it in a log.
		e.Fault("hash", `want "sha256:" and 64 digits, as ledgerctl tokens new writes it; never the token`)
		return h
	}
	copy(h[:], b)
	return h
}

func timeField(e *strictyaml.Map, key string, need bool) time.Time {
	text, ok := e.Scalar(key)
	if !ok && !need {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		e.Fault(key, "want a time such as 2026-11-30T15:00:00Z")
	}
	return at.UTC()
}

const header = `# Tokens of the page: hashes, never a token. ledgerctl tokens new, list and revoke
# keep this file; whoever can write it can let anybody in.
`

// format writes tokens as parseTokens reads them.
func format(list []Token) []byte {
	var b bytes.Buffer
	b.WriteString(header)
	if len(list) == 0 {
		b.WriteString("tokens: []\n")
		return b.Bytes()
	}
	b.WriteString("tokens:\n")
	for _, t := range list {
		scopes := make([]string, len(t.Scopes))
		for i, s := range t.Scopes {
			scopes[i] = string(s)
		}
		fmt.Fprintf(&b, "  - name: %s\n    scopes: [%s]\n", quoted(t.Name), strings.Join(scopes, ", "))
		if t.Tenant != "" {
			fmt.Fprintf(&b, "    tenant: %s\n", quoted(t.Tenant))
		}
		if t.Owner != "" {
			fmt.Fprintf(&b, "    owner: %s\n", quoted(t.Owner))
		}
		fmt.Fprintf(&b, "    hash: %s\n", quoted("sha256:"+t.Hash.String()))
		fmt.Fprintf(&b, "    created: %s\n    expires: %s\n", stamp(t.Created), stamp(t.Expires))
		if !t.Revoked.IsZero() {
			fmt.Fprintf(&b, "    revoked: %s\n", stamp(t.Revoked))
		}
	}
	return b.Bytes()
}

// quoted is a text in YAML's single quotes, in which nothing but the quote means
// anything; texts here have no line ends.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func stamp(t time.Time) string { return quoted(t.UTC().Format(time.RFC3339)) }

// Add appends a token, and makes the file if there is none.
func Add(path string, t Token) error {
	return update(path, true, func(list []Token) ([]Token, error) {
		if len(list) >= maxTokens {
			return nil, ErrManyTokens
		}
		return append(list, t), nil
	})
}

// Revoke ends the token with an id, or all those of a name that are live, and
// returns what it ended. Error: [ErrNoToken].
func Revoke(path, which string, now time.Time) (ended []Token, err error) {
	err = update(path, false, func(list []Token) ([]Token, error) {
		ended = nil
		for i, t := range list {
			if (t.ID() == which || t.Name == which) && t.Revoked.IsZero() {
				list[i].Revoked = now.UTC().Truncate(time.Second)
				ended = append(ended, list[i])
			}
		}
		if len(ended) == 0 {
			return nil, fmt.Errorf("revoke %q: %w", which, ErrNoToken)
		}
		return list, nil
	})
	return ended, err
}

// update changes the file in one step: whoever reads it sees all of it or
// nothing, and of two that write neither loses what the other wrote.
func update(path string, may bool, change func([]Token) ([]Token, error)) error {
	// A link would be replaced by a file: what it points at is changed.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	dir := filepath.Dir(path)
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	defer func() { _ = d.Close() }()
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	text, was, err := readFile(path)
	if err != nil && (!may || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	var list []Token
	if err == nil {
		if list, err = parseTokens(path, text); err != nil {
			return err
		}
	}
	if list, err = change(slices.Clone(list)); err != nil {
		return err
	}
	return replace(d, path, was, format(list))
}

// replace puts text in the place of a file, on the disk before it returns. It stays
// whose it was (nil: it was nobody's): root may change a file that a service reads.
func replace(dir *os.File, path string, was fs.FileInfo, text []byte) (err error) {
	tmp, err := os.CreateTemp(dir.Name(), ".tokens-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write tokens %s: %w", path, err)
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(text)
	if err == nil && was != nil {
		err = handOver(tmp, was)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return dir.Sync()
}

// handOver gives a file the owner, the group and the mode of another one.
func handOver(f *os.File, was fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	from, ok := was.Sys().(*syscall.Stat_t)
	to, also := now.Sys().(*syscall.Stat_t)
	if !ok || !also {
		return errors.New("this system does not say whose the file is: edit it as its owner")
	}
	if from.Uid != to.Uid || from.Gid != to.Gid {
		if err := f.Chown(int(from.Uid), int(from.Gid)); err != nil {
			return fmt.Errorf("it would not stay with user %d and group %d, so it is as it was: do this as its owner, or as root: %w", from.Uid, from.Gid, err)
		}
	}
	return f.Chmod(was.Mode().Perm())
}
