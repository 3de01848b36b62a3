package shelf

import (
	"fmt"
	"io"

	"github.com/daybookhq/daybook/tools/extract"
	"github.com/daybookhq/daybook/tools/sandbox/javascript"
	"github.com/daybookhq/daybook/tools/sandbox/wasm"
)

// What processes of [Options.Child] are started for.
const (
	childExtract    = "extract"
	childJavaScript = "javascript"
	childWASM       = "wasm"
)

// Child is what a process does that was started as [Options.Child] with what as
// its last argument; the result is its exit code. It must do nothing before:
// limits are set here, and what it may take is counted.
func Child(what string, in io.Reader, out, errs io.Writer) int {
	serve := map[string]func(io.Reader, io.Writer) error{childJavaScript: javascript.Serve, childWASM: wasm.Serve}[what]
	switch {
	case what == childExtract:
		return extract.Child(in, out)
	case serve != nil:
		if err := serve(in, out); err != nil {
			fmt.Fprintln(errs, err)
			return 1
		}
		return 0
	}
	fmt.Fprintln(errs, "this process is started by a worker, for one of its tools")
	return 2
}
