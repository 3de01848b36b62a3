package system

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Who asks whether there is a worker keeps none from starting.
func TestTheRoleIsTriedForAgain(t *testing.T) {
	dir := t.TempDir()
	asks, err := os.Create(filepath.Join(dir, "worker.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(asks.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if alive, err := WorkerAlive(dir); alive || err != nil {
		t.Errorf("another who asks looks like a worker: %v, %v", alive, err)
	}
	again, got := make(chan time.Time), make(chan error, 1)
	go func() {
		lock, err := lockDirBy(t.Context(), dir, again)
		if err == nil {
			err = lock.Close()
		}
		got <- err
	}()
	again <- time.Time{} // it has tried once
	if err := asks.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case again <- time.Time{}:
		err = <-got
	case err = <-got:
	}
	if err != nil {
		t.Error(err)
	}
}
