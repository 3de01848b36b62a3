package tools_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
)

// A model is shown the few tools that a request is about, in its provider's
// shape, and what it asks for is run.
func ExampleBus() {
	bus, err := tools.NewBus(bogus.Tools(), tools.BusConfig{Limit: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	offered := bus.Select("what is the wifi password, and when is the dentist appointment?", 0)
	fmt.Println(offered)
	body, err := bus.Anthropic(offered)
	fmt.Println(len(body) > 0, err)
	o := bus.Invoke(context.Background(), tools.Env{}, tools.Call{Name: "my_notes", Arguments: json.RawMessage(`{"topic":"garage"}`)})
	fmt.Println(o.Status, o.Output)
	o = bus.Invoke(context.Background(), tools.Env{}, tools.Call{Name: "my_notes", Arguments: json.RawMessage(`{"about":"garage"}`)})
	fmt.Println(o.Status, o.Blocked)
	// Output:
	// [my_notes my_calendar my_recipes]
	// true <nil>
	// completed {"found":true,"note":"the spare key hangs behind the blue oar","written":"2026-05-19","receipt":"bogus-my_notes-270cda"}
	// failed invalid_arguments
}

// A tool that is no use without another is never offered alone.
func ExampleBus_Select() {
	tool := func(d tools.Definition) tools.Tool {
		t, err := tools.Raw(d, nil, func(context.Context, *tools.Invocation) (any, error) { return "", nil })
		if err != nil {
			panic(err)
		}
		return t
	}
	bus, err := tools.NewBus([]tools.Tool{
		tool(tools.Definition{Name: "recall", Description: "Searches notes."}),
		tool(tools.Definition{Name: "deep_recall", Description: "Walks along links from a note.", Needs: []string{"recall"}}),
		tool(tools.Definition{Name: "decline", Description: "Says that there is no answer.", Pinned: true}),
	}, tools.BusConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bus.Select("walk the links", 3))
	fmt.Println(bus.Select("walk the links", 2))
	// Output:
	// [decline deep_recall recall]
	// [decline recall]
}

// Two services with tools of the same names stand side by side, and a request
// that names one of them goes there.
func ExampleNewGroup() {
	shop := func() *tools.Bus {
		t, err := tools.Raw(tools.Definition{Name: "paper_search", Description: "Finds papers."}, nil,
			func(context.Context, *tools.Invocation) (any, error) { return "", nil })
		if err != nil {
			panic(err)
		}
		bus, err := tools.NewBus([]tools.Tool{t}, tools.BusConfig{})
		if err != nil {
			panic(err)
		}
		return bus
	}
	group, err := tools.NewGroup([]tools.Member{{Name: "consensus", Bus: shop()}, {Name: "s2", Bus: shop()}}, tools.GroupConfig{Namespace: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(group.Names())
	fmt.Println(group.Select("papers on sleep, from s2", 0))
	// Output:
	// [consensus__paper_search s2__paper_search]
	// [s2__paper_search]
}
