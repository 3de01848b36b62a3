package main

import (
	"io"
	"log/slog"
	"testing"
)

// A worker among others has no page: its flags have none to say where.
func TestOnlyDevServesThePage(t *testing.T) {
	for _, c := range []struct {
		name   string
		serves bool
	}{{"dev", true}, {"worker", false}, {"projector", false}} {
		a := &app{out: io.Discard, err: io.Discard}
		cmd, _, err := a.root().Find([]string{c.name})
		if err != nil {
			t.Fatal(err)
		}
		a.flags = cmd.Flags()
		if serves := a.flags.Lookup("ui") != nil; serves != c.serves {
			t.Errorf("runner %s has --ui: %v, want %v", c.name, serves, c.serves)
		}
		if c.serves {
			continue
		}
		stop, err := a.servePage(t.Context(), slog.New(slog.DiscardHandler), nil) // no system: whoever served would need one
		if err != nil {
			t.Fatal(err)
		}
		stop()
	}
}
