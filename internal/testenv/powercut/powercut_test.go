package powercut

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What was fsynced is there after the cut, and what was not is not: a disk that
// kept everything would show nothing.
func TestCutLosesWhatWasNotSynced(t *testing.T) {
	d, err := New(t.TempDir(), "disk", 32)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	synced, written := filepath.Join(d.Dir, "synced"), filepath.Join(d.Dir, "written")
	f, err := os.Create(synced)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("on disk")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); err != nil { // the directory, too
		t.Fatal(err)
	}
	if err := os.WriteFile(written, []byte("in memory"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Dir, "after"), nil, 0o600); err == nil {
		t.Error("a file was made after the cut")
	}
	if err := d.Mend(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(synced); string(b) != "on disk" {
		t.Errorf("the synced file holds %q (%v)", b, err)
	}
	if b, err := os.ReadFile(written); err == nil && len(b) > 0 {
		t.Errorf("what was never synced is there: %q", b)
	}
}

// A full disk takes nothing, and takes it again when there is room.
func TestFillLeavesNoRoom(t *testing.T) {
	d, err := New(t.TempDir(), "disk", 16)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	write := func() error { return os.WriteFile(filepath.Join(d.Dir, "more"), make([]byte, 8<<10), 0o600) }
	if err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to the full disk: %v", err)
	}
	if err := d.Free(); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Errorf("a write after there is room: %v", err)
	}
}
