package agents_test

import (
	"fmt"

	"github.com/daybookhq/daybook/agents"
)

func ExampleParse() {
	_, err := agents.Parse("agents/refunds/AGENT.md", []byte("---\nname: refunds\nmodle: scripted/refunds\n---\nYou decide about refunds.\n"))
	fmt.Println(err)
	// Output:
	// agents/refunds/AGENT.md:2: model: missing; write the model's name, such as scripted/refunds
	// agents/refunds/AGENT.md:3: modle: an agent has no such field; did you mean "model"?
}
