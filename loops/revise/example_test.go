package revise_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/revise"
)

// A validator of one's own is a function.
func ExampleSchema() {
	fits, err := revise.Schema([]byte(`{"type": "object", "required": ["title"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var short revise.Validator = func(_ context.Context, _ revise.Context, value any) (revise.Verdict, error) {
		if title, _ := value.(map[string]any)["title"].(string); len(title) > 20 {
			return revise.Refuse(events.ArtifactIssue{Path: "/title", Message: "write 20 characters at most"}), nil
		}
		return revise.Verdict{OK: true}, nil
	}
	for _, answer := range []string{`{}`, `{"title": "What is new, and what is gone"}`} {
		value, _ := revise.JSON(context.Background(), revise.Context{}, answer)
		for _, v := range []revise.Validator{fits, short} {
			verdict, err := v(context.Background(), revise.Context{}, value)
			b, _ := json.Marshal(verdict.Issues)
			fmt.Println(verdict.OK, string(b), err)
			if !verdict.OK {
				break
			}
		}
	}
	// Output:
	// false [{"message":"missing property 'title'"}] <nil>
	// true null <nil>
	// false [{"path":"/title","message":"write 20 characters at most"}] <nil>
}
