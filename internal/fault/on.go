//go:build daybook_faults

package fault

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled says whether this binary has failpoints.
const Enabled = true

// load reads the environment once, at the first point or [Check].
var load = sync.OnceValues(func() (*set, error) {
	return newSet(os.Getenv("DAYBOOK_FAULTS"), os.Getenv("DAYBOOK_FAULT_SEED"), os.Getenv("DAYBOOK_FAULT_COUNTS"))
})

// Check returns an error if the environment's rules cannot be understood. Call
// it first thing in main; without it the first point panics with the same text.
func Check() error {
	_, err := load()
	return err
}

// Point is a place at which the process may be killed, stopped or delayed, or
// panic. It panics if a rule asks it for an error, which it cannot return.
func Point(name string) {
	if err := loaded().hit(name); err != nil {
		panic(fmt.Sprintf("fault: %v, but this point returns no errors; use another action", err))
	}
}

// Err is a [Point] that can also fail. Where the operation is not done yet, the
// caller returns without doing it; where it is done, the caller forgets the
// result and returns the error: it was carried out and nobody was told.
func Err(name string) error {
	if err := loaded().hit(name); err != nil {
		return err
	}
	return nil
}

func loaded() *set {
	s, err := load()
	if err != nil {
		panic(err.Error())
	}
	return s
}

// A set is the rules of a process and what it has seen. Its methods may be
// called concurrently.
type set struct {
	counts *os.File // nil: hits are not counted

	mu     sync.Mutex
	points map[string]*point
}

// A point is one place and its rules.
type point struct {
	hits  int
	rules []*rule
}

func newSet(spec, seed, countsPath string) (*set, error) {
	rules, err := parse(spec, seed)
	if err != nil {
		return nil, err
	}
	s := &set{points: map[string]*point{}}
	for _, name := range Names() {
		s.points[name] = &point{rules: rules[name]}
	}
	if countsPath != "" {
		s.counts, err = os.OpenFile(countsPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, fmt.Errorf("DAYBOOK_FAULT_COUNTS: %w", err)
		}
	}
	return s, nil
}

// hit counts, then does what the rules say.
func (s *set) hit(name string) *Error {
	var failed *Error
	for _, a := range s.fire(name) {
		if err := a.do(name); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// fire counts a hit and returns the actions that are due.
func (s *set) fire(name string) []action {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.points[name]
	if !ok {
		panic(fmt.Sprintf("fault: point %q is not registered; add it to names in internal/fault/names.go", name))
	}
	p.hits++
	var due []action
	var words []string
	for _, r := range p.rules {
		if r.due(p.hits) {
			due = append(due, r.action)
			words = append(words, r.action.verb)
		}
	}
	if s.counts != nil {
		if len(words) == 0 {
			words = []string{"-"}
		}
		// One write of a short line to an O_APPEND file: whole, and in the page
		// cache, where a SIGKILL cannot reach it.
		if _, err := fmt.Fprintf(s.counts, "%s\t%s\n", name, strings.Join(words, ",")); err != nil {
			panic(fmt.Sprintf("fault: count a hit: %v", err))
		}
	}
	return due
}

func (a action) do(name string) *Error {
	switch a.verb {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal needs a moment; nothing may happen in it
	case "stop":
		stop(a.wait)
	case "panic":
		panic("fault: injected panic at " + name)
	case "delay":
		time.Sleep(a.wait)
	case "err":
		return &Error{Point: name, Name: a.name}
	case "exec_and_timeout":
		return &Error{Point: name, Name: a.verb}
	}
	return nil
}

// stop freezes the process as a debugger or an overloaded host would. A stopped
// process cannot wake itself, so a shell of its own session does it.
func stop(d time.Duration) {
	pid := os.Getpid()
	waker := exec.Command("sh", "-c", fmt.Sprintf("sleep %.3f; kill -CONT %d", d.Seconds(), pid))
	waker.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := waker.Start(); err != nil {
		panic(fmt.Sprintf("fault: nothing could wake this process after a stop: %v", err))
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	_ = waker.Wait()
}
