// Package powercut is a disk whose power can be cut: an ext4 file system in a
// file. What was fsynced before the cut is there after it; what was only
// written may be gone, as it would be with the power of a machine. Killing a
// process shows nothing of the kind, since the kernel still writes for the dead.
package powercut

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

// ErrUnavailable says that this machine cannot make such a disk: it takes root,
// loop devices, mkfs.ext4 and mount.
var ErrUnavailable = errors.New("no disk whose power can be cut: that takes root, loop devices, mkfs.ext4 and mount")

// Disk is a mounted disk. Its methods may not be called concurrently.
type Disk struct {
	// Dir is where it is mounted.
	Dir   string
	image string
}

// New makes a disk of some size below dir and mounts it there. The error wraps
// [ErrUnavailable] where that cannot be done.
func New(dir, name string, megabytes int64) (_ *Disk, err error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: not root", ErrUnavailable)
	}
	d := &Disk{Dir: filepath.Join(dir, name), image: filepath.Join(dir, name+".img")}
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	err = errors.Join(f.Truncate(megabytes<<20), f.Close()) // sparse
	if err == nil {
		err = run("mkfs.ext4", "-q", "-F", "-m", "0", d.image)
	}
	if err == nil {
		err = d.mount()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, os.Remove(d.image)))
	}
	return d, nil
}

func (d *Disk) mount() error { return run("mount", "-o", "loop", d.image, d.Dir) }

// The ioctl and its flag: go down without writing the journal out. See
// ext4_ioctl_shutdown in the kernel's sources.
const (
	fsIocShutdown = 0x8004587d
	noLogFlush    = 2
)

// Cut cuts the power: nothing reaches the disk any more, and every request to
// it fails.
func (d *Disk) Cut() error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return fmt.Errorf("cut the power of %s: %w", d.Dir, err)
	}
	defer f.Close()
	flag := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fsIocShutdown, uintptr(unsafe.Pointer(&flag))); errno != 0 {
		return fmt.Errorf("cut the power of %s: %w", d.Dir, errno)
	}
	return nil
}

// Sync writes everything out, as a disk has it that was in use for a while.
func (d *Disk) Sync() error { return run("sync", "-f", d.Dir) }

// unmountFor is how long processes may take to let go of a disk.
const unmountFor = 10 * time.Second

// Mend brings the power back: the file system is mounted again, with whatever
// its journal has. No process may have a file open on it any more.
func (d *Disk) Mend() error {
	if err := d.unmount(); err != nil {
		return err
	}
	if err := d.mount(); err != nil {
		return fmt.Errorf("bring the power of %s back: %w", d.Dir, err)
	}
	return nil
}

func (d *Disk) unmount() error {
	deadline := time.Now().Add(unmountFor)
	for {
		err := run("umount", d.Dir)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("take %s down: %w", d.Dir, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Close unmounts the disk and deletes it.
func (d *Disk) Close() error { return errors.Join(d.unmount(), os.Remove(d.image)) }

func run(program string, args ...string) error {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}
