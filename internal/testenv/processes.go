package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Gone reports whether a process has ended; one that nobody has waited for has.
func Gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}

// Children lists the processes that this one has started and that are there, also
// those that have ended and nobody has waited for. It needs Linux' /proc.
func Children(t testing.TB) (pids []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no processes under /proc: %v", err)
	}
	for _, path := range stats {
		b, _ := os.ReadFile(path) // it may have ended
		_, after, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		if fields := strings.Fields(after); ok && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}
