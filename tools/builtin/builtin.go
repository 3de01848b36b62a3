// Package builtin holds tools that any agent can use. None is offered until
// the host adds it to a registry.
package builtin

import "github.com/daybookhq/daybook/tools"

// must is for declarations that are constants of this package.
func must(t tools.Tool, err error) tools.Tool {
	if err != nil {
		panic(err)
	}
	return t
}
