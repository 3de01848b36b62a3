// Package fault is where tests make the program fail: named points in the
// protocols at which a test can kill, stop or delay the process or return an
// error. Without the build tag daybook_faults every point compiles to nothing.
//
// With it, the environment says what happens where:
//
//	DAYBOOK_FAULTS='begin.after_commit=kill@3;projector.before_commit=stop:20s@p0.05'
//
// Rules are separated by ";", each is point=action@trigger. Actions:
//
//	kill              SIGKILL to this process
//	stop:D            SIGSTOP to this process; SIGCONT after the duration D
//	panic             panic
//	delay:D           wait for the duration D
//	err:NAME          [Err] returns an [*Error] with this name
//	exec_and_timeout  [Err] returns a time-out although the operation was done
//
// Triggers, counted in each process on its own: @N is the N-th hit of the point
// alone, @pF each hit with probability F, none is every hit. The random numbers
// come from DAYBOOK_FAULT_SEED, a whole number; without it a seed is taken and
// written to standard error. A point may have several rules; those whose trigger
// fires are carried out in order.
//
// Every hit is appended to the file DAYBOOK_FAULT_COUNTS, if it is set, before
// anything is done about it, so that [Counts] can judge after a SIGKILL which
// windows were really entered. Processes may share the file.
package fault

import (
	"context"
	"fmt"
	"io"
	"syscall"
)

// An Error is what [Err] returns where a rule asks for an error.
type Error struct {
	Point string
	Name  string // as given after "err:", or "exec_and_timeout"
}

func (e *Error) Error() string { return fmt.Sprintf("injected at %s: %s", e.Point, e.Name) }

// Unwrap gives the well-known error that the name stands for: timeout and
// exec_and_timeout, canceled, eof, reset, refused, no_space. Any other name
// stands for nothing but itself.
func (e *Error) Unwrap() error {
	switch e.Name {
	case "timeout", "exec_and_timeout":
		return context.DeadlineExceeded
	case "canceled":
		return context.Canceled
	case "eof":
		return io.ErrUnexpectedEOF
	case "reset":
		return syscall.ECONNRESET
	case "refused":
		return syscall.ECONNREFUSED
	case "no_space":
		return syscall.ENOSPC
	}
	return nil
}
