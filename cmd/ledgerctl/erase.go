package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) eraseCommand() *cobra.Command {
	var tenant string
	var f acting
	c := &cobra.Command{
		Use:   "erase OWNER",
		Short: "Destroys the key of an owner's exact results and deletes what was remembered, for good",
		Long: `Destroys the key of an owner's exact results, for good. Workers with a seal key keep what
destructive tools returned, exactly, encrypted under a key of the owner; without it nobody can
read it again, and nothing of the owner's is sealed from now on. What agents remembered in the
owner's runs is deleted, and nothing more is kept. A note stays if runs of another owner
remembered the same, or a run without an owner did: such a note is nobody's in particular, and
no erasure takes it. How many stayed is printed; ledgerctl memory forget takes single notes.
Shared documents stay (ledgerctl shared rm). What is recorded stays:
events, calls and costs, which were redacted before they were stored, and that the effects
took effect, so none is made twice; a replay hands back the redacted result.
Backups of the database still hold the key: they count as erased once they are gone.
` + whoActs,
		Example: `  ledgerctl erase u-17 --tenant acme --yes`,
		Args:    oneArg("an owner"),
		RunE: func(c *cobra.Command, args []string) error {
			if tenant == "" {
				return usagef("--tenant is required: owners are of a tenant")
			}
			if err := a.confirm(fmt.Sprintf("the erasure of owner %q of tenant %q", args[0], tenant)); err != nil {
				return err
			}
			return a.withLedger(c.Context(), func(st ledger.Store) error {
				by, err := a.actor(c.Context(), st, f)
				if err != nil {
					return err
				}
				e, err := st.Erase(c.Context(), tenant, args[0], by)
				if errors.Is(err, ledger.ErrNotFound) {
					return fmt.Errorf("%w: no run of tenant %q has this owner", err, tenant)
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "owner %q of tenant %q is erased (%s, by %s): %d exact results cannot be read any more, %d notes and %d moments are deleted\n",
					clean(e.Owner), clean(e.Tenant), stamp(e.At), clean(e.By), e.Sealed, e.Notes, e.Moments)
				if err == nil && e.Sessions > 0 {
					_, err = fmt.Fprintf(a.out, "%d sessions of the owner are closed: nobody continues them\n", e.Sessions)
				}
				if stay := e.StayNobody + e.StayOthers; err == nil && stay > 0 {
					_, err = fmt.Fprintf(a.out, "%d notes stay: %d that runs without an owner remembered too, %d that runs of other owners did (ledgerctl memory forget takes single notes)\n",
						stay, e.StayNobody, e.StayOthers)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "tenant (required)")
	f.person(c)
	a.changes(c)
	return c
}
