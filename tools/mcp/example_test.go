package mcp_test

import (
	"fmt"

	"github.com/daybookhq/daybook/tools/mcp"
)

func ExampleParse() {
	_, err := mcp.Parse("mcp.yaml", []byte(`servers:
  crm:
    url: https://mcp.example.com/mcp
    headers: {Authorization: "Bearer secret://crm_token"}
    tools:
      refund: {effect: destructive, recovery: keyed}
`))
	fmt.Println(err)
	// Output:
	// mcp.yaml:6: servers.crm.tools.refund.ttl: missing; keyed recovery needs it: for how long the server remembers a key, such as 24h
}
