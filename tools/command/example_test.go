//go:build unix

package command_test

import (
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/tools/command"
)

func ExampleParseEntry() {
	e, err := command.ParseEntry("command(git log *)")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Rejection(json.RawMessage(`{"command":"git log -3"}`)))
	fmt.Println(e.Rejection(json.RawMessage(`{"command":"git push"}`)))
	// Output:
	// <nil>
	// "command(git log *)" does not cover the command
}
