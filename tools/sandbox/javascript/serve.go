package javascript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dop251/goja"

	"github.com/daybookhq/daybook/tools/sandbox"
)

// Serve is the child: it reads one program from r, runs it, and writes what came
// of it to w. The process must do nothing else, since it ends when the program takes
// too much memory.
func Serve(r io.Reader, w io.Writer) error {
	var o order
	if err := json.NewDecoder(r).Decode(&o); err != nil {
		return fmt.Errorf("javascript: read the program: %w", err)
	}
	capMemory(uint64(o.MaxMemory))
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(uint64(o.MaxMemory), done)
	}()
	a := run(o)
	close(done)
	<-watched
	return json.NewEncoder(w).Encode(a)
}

// capMemory lets the kernel refuse what is far above limit: one operation that
// allocates without pause leaves nobody the time to look. Where there is no /proc
// (outside of Linux) only watch is there.
func capMemory(limit uint64) {
	b, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 6 {
		return
	}
	pages, err := strconv.ParseUint(fields[5], 10, 64)
	if err != nil {
		return
	}
	most := pages*uint64(os.Getpagesize()) + 3*limit + 256<<20
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: most, Max: most})
}

// watch ends the process when its heap is above limit.
func watch(limit uint64, done <-chan struct{}) {
	debug.SetGCPercent(50) // what is not needed any more counts until it is collected
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	limit += sample[0].Value.Uint64() // what the interpreter itself takes is not the program's
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if metrics.Read(sample); sample[0].Value.Uint64() > limit {
			os.Exit(exitMemory)
		}
	}
}

func run(o order) (a answer) {
	stdout, stderr := &sandbox.Buffer{Max: o.MaxOutput}, &sandbox.Buffer{Max: o.MaxOutput}
	defer func() {
		if p := recover(); p != nil {
			a.OK = false
			fmt.Fprintf(stderr, "the interpreter crashed: %v\n", p)
		}
		a.Stdout, a.Stderr = stdout.String(), stderr.String()
	}()
	vm := goja.New()
	vm.SetMaxCallStackSize(2000)
	if err := console(vm, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return a
	}
	timer := time.AfterFunc(o.Timeout, func() { vm.Interrupt("time is up") })
	defer timer.Stop()
	_, err := vm.RunScript("program.js", o.Code)
	var stopped *goja.InterruptedError
	var thrown *goja.Exception
	var deep *goja.StackOverflowError
	switch {
	case err == nil:
		a.OK = true
	case errors.As(err, &stopped):
		fmt.Fprintf(stderr, "stopped after %v: time is up\n", o.Timeout)
	case errors.As(err, &deep):
		fmt.Fprintf(stderr, "RangeError: the call stack is too deep\n%s\n", deep.String())
	case errors.As(err, &thrown):
		fmt.Fprintln(stderr, thrown.String())
	default:
		fmt.Fprintln(stderr, err)
	}
	return a
}

// console gives the program the only things it can do to the outside: print.
func console(vm *goja.Runtime, stdout, stderr io.Writer) error {
	stringify, ok := goja.AssertFunction(vm.Get("JSON").ToObject(vm).Get("stringify"))
	if !ok {
		return errors.New("the interpreter has no JSON.stringify")
	}
	printer := func(w io.Writer) func(goja.FunctionCall) goja.Value {
		return func(c goja.FunctionCall) goja.Value {
			parts := make([]string, len(c.Arguments))
			for i, v := range c.Arguments {
				parts[i] = text(v, stringify)
			}
			fmt.Fprintln(w, strings.Join(parts, " "))
			return goja.Undefined()
		}
	}
	c := vm.NewObject()
	return errors.Join(
		c.Set("log", printer(stdout)), c.Set("info", printer(stdout)), c.Set("warn", printer(stderr)), c.Set("error", printer(stderr)),
		vm.Set("console", c), vm.Set("print", printer(stdout)),
	)
}

// text is what is printed of a value: objects as JSON where they have one.
func text(v goja.Value, stringify goja.Callable) string {
	if o, ok := v.(*goja.Object); ok && o.ClassName() != "Error" && o.ClassName() != "Function" {
		if j, err := stringify(goja.Undefined(), v); err == nil && !goja.IsUndefined(j) {
			return j.String()
		}
	}
	return v.String()
}
