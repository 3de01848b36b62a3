package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Running says whether the server's main process exists.
func (s *Server) Running() bool {
	pid, err := s.PID()
	return err == nil && alive(pid)
}

// PID is the server's main process, the parent of all its others.
func (s *Server) PID() (int, error) {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strconv.Atoi(line)
}

// Kill sends SIGKILL to every process of the server at once, as an out-of-memory
// killer or a lost host would, and returns when they are dead. Start brings it
// back, through crash recovery.
func (s *Server) Kill() error {
	nothing := func() error { return nil }
	return s.Crash(nothing, nothing)
}

// Crash is Kill for a server whose disk goes down with it: cut is called while
// nothing of the server moves any more and before it dies, mend when it is dead.
func (s *Server) Crash(cut, mend func() error) error {
	pid, err := s.PID()
	if err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	// Stopped, it can neither fork nor clean up after a child that dies first.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	pids := append(children(pid), pid)
	if err := cut(); err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	for _, p := range pids {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill postgres: process %d: %w", p, err)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for _, p := range pids {
		for alive(p) {
			if time.Now().After(deadline) {
				return fmt.Errorf("kill postgres: process %d is still there", p)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := mend(); err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	// With all of them dead, the lock files protect nothing; and where nobody
	// reaps orphans, they name zombies that PostgreSQL would take for living.
	socket := filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d.lock", s.port))
	for _, path := range []string{filepath.Join(s.data(), "postmaster.pid"), socket} {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("kill postgres: %w", err)
		}
	}
	return nil
}

// children lists the direct children of a process; a PostgreSQL server has no
// others.
func children(parent int) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if _, ppid, ok := stat(pid); ok && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive says whether a process exists and is more than a zombie.
func alive(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != 'Z' && state != 'X'
}

// stat reads state and parent of a process from /proc.
func stat(pid int) (state byte, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// pid (name) state ppid …, and the name may hold spaces and brackets
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// Pause stops every process of the server while f runs. A child that is forked
// in between is not stopped; it waits for the others all the same.
func (s *Server) Pause(f func()) error {
	pid, err := s.PID()
	if err != nil {
		return fmt.Errorf("pause postgres: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause postgres: %w", err)
	}
	pids := append(children(pid), pid)
	defer func() {
		for _, p := range pids {
			_ = syscall.Kill(p, syscall.SIGCONT) // one that has ended needs none
		}
	}()
	for _, p := range pids {
		if err := syscall.Kill(p, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("pause postgres: process %d: %w", p, err)
		}
	}
	f()
	return nil
}
