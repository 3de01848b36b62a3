//go:build unix

package folder

import (
	"io/fs"
	"syscall"
)

// links is how many names a file has.
func links(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // of another size on other systems
	}
	return 1
}
