package tools

// Control values of a result.
const (
	ControlFinish  = "finish"
	ControlDecline = "decline"
)

// Finished is a tool's wish to end the run with an output.
type Finished struct{ Output any }

// Declined is a tool's wish to end the run without an answer.
type Declined struct{ Because string }

// Finish is returned by a tool that ends the run. Output is rendered like any
// result: text as it is, everything else as JSON.
func Finish(output any) Finished { return Finished{output} }

// Decline is returned by a tool that ends the run without an answer, for a
// stated reason.
func Decline(because string) Declined { return Declined{because} }
