package powercut

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }

// Fill leaves no room on the disk, not a byte: every write that needs a block
// more fails as on any full disk. What is on it stays as it is.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("fill %s: %w", d.Dir, err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		chunk := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(chunk)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("fill %s: %w", d.Dir, err)
		}
	}
	return nil
}

// Free gives back what Fill took.
func (d *Disk) Free() error { return os.Remove(d.filler()) }
