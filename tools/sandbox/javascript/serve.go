//go:build unix

package javascript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dop251/goja"

	"github.com/daybookhq/daybook/tools/sandbox/internal/child"
)

// Serve is the child: it reads one program from r, runs it, and writes what came
// of it to w. The process must do nothing else, and end then: it is confined for
// good, and ends by itself when the program takes too much memory.
func Serve(r io.Reader, w io.Writer) error {
	if err := child.Serve(r, w, child.Interpreter{Run: run, WatchHeap: true}); err != nil {
		return fmt.Errorf("javascript: %w", err)
	}
	return nil
}

func run(ctx context.Context, o child.Order, stdout, stderr io.Writer) error {
	vm := goja.New()
	vm.SetMaxCallStackSize(2000)
	if err := console(vm, stdout, stderr); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { vm.Interrupt("time is up") })()
	_, err := vm.RunScript("program.js", string(o.Code))
	var thrown *goja.Exception
	var deep *goja.StackOverflowError
	switch {
	case errors.As(err, &deep):
		return fmt.Errorf("RangeError: the call stack is too deep\n%s", deep.String())
	case errors.As(err, &thrown):
		return errors.New(thrown.String()) // with where it was thrown
	}
	return err
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
