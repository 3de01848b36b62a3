// Command wild is the server of package mcptest as a program: it notes what it
// does in the directory MCPTEST_DIR.
package main

import (
	"os"
	"strconv"

	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

func main() {
	s := &mcptest.Server{Dir: os.Getenv("MCPTEST_DIR"), Secret: os.Getenv("API_KEY")}
	s.Note(mcptest.Process, strconv.Itoa(os.Getpid()))
	s.Stdio(os.Stdin, os.Stdout)
}
