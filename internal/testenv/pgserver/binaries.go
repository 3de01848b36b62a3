package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrNoBinaries is returned by [Start] where no PostgreSQL server is installed.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries in PATH or /usr/lib/postgresql/*/bin")

// binDir finds the directory with initdb, pg_ctl and postgres. Distributions
// keep them out of PATH, several versions beside each other: PATH wins, then
// the newest version.
func binDir() (string, error) {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		dirs = append(dirs, dir)
		// A link to postgres alone may lead to where its friends are.
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", ErrNoBinaries
}

// BinDir is where the server's programs are, such as pg_dump and psql.
func BinDir() (string, error) { return binDir() }

func complete(dir string) bool {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// version is the major version in a path such as /usr/lib/postgresql/15/bin.
func version(dir string) int {
	name := strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "pgsql-")
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// freshDir makes a short directory (a socket path has at most 107 bytes) that
// belongs to the user the server runs as.
func freshDir(parent string, u *account) (string, error) {
	dir, err := os.MkdirTemp(parent, "daybook-pg-")
	if err != nil {
		return "", err
	}
	if err := u.own(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// ownedDir makes a directory that belongs to the user the server runs as.
func ownedDir(dir string, u *account) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return u.own(dir)
}

// own gives dir to the account; to this process's own user there is nothing to give.
func (u *account) own(dir string) error {
	if u == nil {
		return nil
	}
	if err := os.Chown(dir, int(u.uid), int(u.gid)); err != nil {
		return fmt.Errorf("give %s to user %s: %w", dir, u.name, err)
	}
	return nil
}

// memoryDir is a directory in memory with room for a test run's databases, or
// "" where there is none: containers often have 64 MiB there.
func memoryDir() string {
	const dir, room = "/dev/shm", 2 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return dir
}
