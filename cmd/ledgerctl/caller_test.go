package main

import (
	"context"
	"testing"

	"github.com/daybookhq/daybook/ledger"
)

// authenticated is a ledger whose database knows who is connected.
type authenticated struct {
	ledger.Store
	role string
}

func (s authenticated) Role(context.Context) (string, error) { return s.role, nil }

func TestActor(t *testing.T) {
	a := &app{caller: func() string { return "svc" }}
	for _, tt := range []struct{ name, role, behalf, want string }{
		{"the account", "", "", "svc"},
		{"and the database role", "ops", "", "svc (database role ops)"},
		{"and a person beside it", "ops", "ada", `svc (database role ops), on behalf of "ada"`},
		{"whose name is only a name", "", `x" (database role admin)`, `svc, on behalf of "x\" (database role admin)"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := a.actor(t.Context(), authenticated{role: tt.role}, acting{behalf: tt.behalf})
			if err != nil || got != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
