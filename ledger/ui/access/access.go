// Package access says who may see and do what on the page: bearer tokens with
// scopes, sessions of browsers, the guard in front of every handler, and a view
// of the ledger that holds nothing but what its reader may read.
package access

import (
	"context"
	"slices"

	"github.com/daybookhq/daybook/events"
)

// Scope is something that a token allows. Stored; never renamed.
type Scope string

// Scopes. Resolve and approve are no use without read, and a token has none of
// them by itself.
const (
	Read    Scope = "read"    // look at runs and what belongs to them
	Resolve Scope = "resolve" // settle effects in doubt, cancel runs
	Approve Scope = "approve" // approve and deny calls
)

// Scopes are all there are.
func Scopes() []Scope { return []Scope{Read, Resolve, Approve} }

// Principal is who asks, as a token proved it. The zero value may do nothing.
type Principal struct {
	// Name is who the record names as the actor.
	Name   string
	Scopes []Scope
	// Tenant and Owner are all that it may see; empty is all of them.
	Tenant, Owner string
	// Token is the public id of the token that proved it, see [Token.ID]; empty
	// for whoever only sits at the machine.
	Token string
}

// Can reports whether p has a scope.
func (p Principal) Can(s Scope) bool { return slices.Contains(p.Scopes, s) }

// Sees reports whether p may see what belongs to an owner of a tenant.
func (p Principal) Sees(tenant, owner string) bool {
	return (p.Tenant == "" || p.Tenant == tenant) && (p.Owner == "" || p.Owner == owner)
}

// All reports whether p may see everything, so also what belongs to nobody in
// particular: queues, and how the ledger as a whole stands.
func (p Principal) All() bool { return p.Tenant == "" && p.Owner == "" }

// Actor is how the record names p: what it is called, and by which token it
// proved that. No name can look like more than a name, see [ValidName].
func (p Principal) Actor() string {
	if p.Token == "" {
		return p.Name
	}
	return p.Name + " (token " + p.Token + ")"
}

type (
	principalKey struct{}
	requestKey   struct{}
)

// With returns a context that carries p: what [Guard.Wrap] does, for tests and
// for whoever authenticates in another way.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns who asks, and false if nobody was authenticated.
func From(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// RequestID is the id by which the log names the request of ctx; zero outside of one.
func RequestID(ctx context.Context) events.ID {
	id, _ := ctx.Value(requestKey{}).(events.ID)
	return id
}
