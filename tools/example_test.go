package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// A refund that a model asks for twice is paid once. The provider dedupes the
// op key for a day, so a crashed call may be made again.
func Example() {
	type refundArgs struct {
		Order string `json:"order" jsonschema:"the order to pay back"`
		Cents int    `json:"cents"`
	}
	paid := 0
	refund, err := tools.New(tools.Definition{
		Name:        "refund",
		Description: "Pays money back to a customer.",
		Effect:      tools.Destructive,
		Trust:       tools.Own,
		Recovery:    tools.Keyed(24 * time.Hour),
		Identity:    []string{"order"},
	}, func(_ context.Context, _ *tools.Invocation, in refundArgs) (string, error) {
		if in.Cents <= 0 {
			return "", tools.NoEffect(fmt.Errorf("cannot pay back %d cents", in.Cents))
		}
		paid++ // hand in.OpKey to the provider here
		return fmt.Sprintf("paid back %d cents for %s", in.Cents, in.Order), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var reg tools.Registry // the zero value works
	if err := reg.Add(refund); err != nil {
		fmt.Println(err)
		return
	}
	d := tools.NewDispatcher(&reg, tools.Config{})
	env := toolstest.NewLedger().Run().Env() // the runtime's is the database's
	for turn, args := range []string{`{"order":"A1","cents":500}`, `{"cents":500,"order":"A1"}`, `{"order":"A1","cents":900}`, `{"order":"A1"}`} {
		disp, err := d.Dispatch(context.Background(), env, tools.Call{
			ID: events.CallID{Turn: turn + 1}, Name: "refund", Arguments: json.RawMessage(args),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %q%s\n", disp.Result.Status, disp.Detail, strings.TrimRight(" "+disp.Result.Output, " "))
	}
	fmt.Println("paid", paid, "time")
	// Output:
	// completed "" paid back 500 cents for A1
	// completed "" paid back 500 cents for A1
	// failed "identity_conflict"
	// failed "schema"
	// paid 1 time
}
