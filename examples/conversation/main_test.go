package main

import (
	"bytes"
	"testing"

	"github.com/daybookhq/daybook/examples/internal/modelflag"
)

func TestConversation(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time these are the same runs
		var out bytes.Buffer
		if err := run(t.Context(), dir, modelflag.Flags{}, &out); err != nil {
			t.Fatal(err)
		}
		const want = "customer: Where is order 7?\nagent:    It is on its way.\n" +
			"customer: Which order did I ask about?\nagent:    About the one that I looked up: {\"order\":7}\n"
		if out.String() != want {
			t.Errorf("%s\nwant\n%s", out.String(), want)
		}
	}
}
