package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

// caller is who runs this program, as the operating system knows it: no flag
// and no variable that anybody may set says it. For root, who could be anybody,
// sudo's word is added.
func caller() string {
	uid := os.Getuid()
	name := fmt.Sprintf("uid %d", uid)
	// Not user.Current, which takes $USER for an account that has no entry.
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); uid == 0 && by != "" {
		name += " (sudo by " + by + ")"
	}
	return name
}

const (
	whoDecides = `Who decides is not asked for: the record keeps the account that runs this command, and
over PostgreSQL the database role that the server has authenticated. A person behind a
service account is named beside it with --on-behalf-of, never instead of it.`
	whoActs = `The record keeps the account that runs this command, over PostgreSQL also the database
role that the server has authenticated, and beside it whom --on-behalf-of names.`
)

// acting is what a command line says of who does something, and why. Who does is
// not asked for.
type acting struct{ behalf, reason string }

// person adds the flag for a person behind the account.
func (f *acting) person(c *cobra.Command) {
	c.Flags().StringVar(&f.behalf, "on-behalf-of", "", "a person that the record names beside you, who are named in any case")
}

func (f *acting) add(c *cobra.Command) {
	f.person(c)
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
}

func (f acting) check() error {
	if f.reason == "" {
		return usagef("--reason is required: the record says who did it, and why")
	}
	return nil
}

// decider is who the record names where the ledger adds the database role itself.
func (a *app) decider(f acting) string {
	by := a.caller()
	if f.behalf != "" {
		// Quoted, so that no name can look like more than a name.
		by += fmt.Sprintf(", on behalf of %q", f.behalf)
	}
	return by
}

// actor is who the record names: the account, the database role, and beside
// them the person that the command line names.
func (a *app) actor(ctx context.Context, st ledger.Store, f acting) (string, error) {
	role, err := st.Role(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the database who is connected: %w", err)
	}
	if role != "" {
		role = " (database role " + role + ")"
	}
	by := a.decider(acting{})
	return by + role + a.decider(f)[len(by):], nil
}
