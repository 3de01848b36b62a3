package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/daybookhq/daybook/events"
)

// guard calls somebody else's function; a panic becomes an error.
func guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return f()
}

// beforeCall runs the call middleware. What it made of the arguments is
// redacted again: the runtime acts only on redacted arguments.
func (d *Dispatcher) beforeCall(ctx context.Context, c Call) (Call, error) {
	before := bytes.Clone(c.Arguments) // a middleware may write into it
	for _, m := range d.cfg.CallMiddleware {
		err := guard("call middleware", func() (err error) {
			id, attempt := c.ID, c.Attempt
			c, err = m(ctx, c)
			c.ID, c.Attempt = id, attempt
			return err
		})
		if err != nil {
			return c, err
		}
	}
	if bytes.Equal(before, c.Arguments) {
		return c, nil
	}
	c.Malformed = false
	c.Arguments = d.redactArguments(c)
	return c, nil
}

// redactArguments redacts arguments that did not come from an event. What is
// no JSON becomes a JSON string, and fails the check for an object.
func (d *Dispatcher) redactArguments(c Call) json.RawMessage {
	var exempt []string
	if e := d.entries[c.Name]; e != nil {
		exempt = e.def.Exempt()
	}
	r, err := d.cfg.Redactor.JSON(c.Arguments, exempt...)
	if err != nil {
		return quoted(d.clean(string(c.Arguments), maxMetadata))
	}
	return r.Bytes()
}

// afterCall runs the result middleware, which may change the text of r only.
// If it fails, the text is withheld: it may have been about to remove
// something. What it changed is redacted again.
func (d *Dispatcher) afterCall(ctx context.Context, c Call, r events.ToolResult) (events.ToolResult, *unshowable) {
	if len(d.cfg.ResultMiddleware) == 0 {
		return r, nil
	}
	out := r
	for _, m := range d.cfg.ResultMiddleware {
		err := guard("result middleware", func() (err error) {
			out, err = m(ctx, c, out)
			return err
		})
		if err != nil {
			r.Output, r.Error, r.Sources = "", "", nil
			return r, &unshowable{KindWithheld, "the result was withheld: " + d.clean(rawErrorText(err), maxForeignError)}
		}
	}
	if out.Output != r.Output {
		r.Output = d.cfg.Redactor.String(valid(out.Output))
	}
	if out.Error != r.Error {
		r.Error = d.clean(out.Error, maxOwnError)
	}
	if !reflect.DeepEqual(out.Sources, r.Sources) {
		r.Sources = d.cleanSources(out.Sources)
	}
	return r, nil
}

// permit asks the permission check; a panic is a denial.
func (d *Dispatcher) permit(ctx context.Context, env Env, e *entry, c Call) *blockage {
	if d.cfg.Permission == nil {
		return nil
	}
	err := guard("permission check", func() error { return d.cfg.Permission(ctx, env, e.def, c) })
	if err == nil {
		return nil
	}
	b := &blockage{entry: e, reason: events.BlockedPermissionDenied, text: "not permitted: " + d.clean(rawErrorText(err), maxOwnError)}
	var denial *Denial
	if errors.As(err, &denial) {
		b.detail = denial.Detail
	}
	return b
}

// DetailPolicy is the detail of calls that a rule denies. Stored.
const DetailPolicy = "policy"

// rule asks the run's rules; asked is the one that wants an approval.
func (d *Dispatcher) rule(env Env, e *entry, c Call) (asked string, b *blockage) {
	if env.Rule == nil {
		return "", nil
	}
	effect := e.def.EffectOrDestructive()
	if e.isDestructive(env.Bindings) {
		effect = Destructive
	}
	var r Ruling
	err := guard("policy", func() error {
		r = env.Rule(e.def, effect, c)
		return nil
	})
	switch {
	case err != nil:
		r = Ruling{Deny: true, Text: err.Error()}
	case r.Ask && effect != Destructive:
		r.Deny = true
		r.Text += fmt.Sprintf("; a person would have to approve it, and approvals guard destructive calls: %s is %s", c.Name, effect)
	}
	if !r.Deny {
		if r.Ask {
			return d.clean(cmp.Or(r.Text, r.Rule, DetailPolicy), maxOwnError), nil
		}
		return "", nil
	}
	return "", &blockage{
		entry: e, reason: events.BlockedPermissionDenied, detail: DetailPolicy, rule: r.Rule, text: "not permitted: " + d.clean(r.Text, maxOwnError),
	}
}

// validate asks the validator; a panic blocks.
func (d *Dispatcher) validate(ctx context.Context, env Env, e *entry, c Call) *blockage {
	validate := d.cfg.Validate
	if env.Validate != nil {
		validate = env.Validate
	}
	if validate == nil {
		return nil
	}
	err := guard("validator", func() error { return validate(ctx, e.def, c) })
	if err == nil {
		return nil
	}
	return &blockage{entry: e, reason: events.BlockedValidationFailed, text: d.clean(rawErrorText(err), maxOwnError)}
}
