package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSchemaWork bounds what a schema may ask for, in schemas held against values,
// each place in the arguments counted once.
const maxSchemaWork = 10_000

// maxSchemaLooks bounds the search for that itself.
const maxSchemaLooks = 1_000_000

var errCostlySchema = errors.New("holding arguments against it could take for ever: its parts (allOf, anyOf, $ref, …) repeat each other too often")

// checkCost refuses a schema that is small and whose validation is not. Schemas
// are only as costly as what is held against one and the same place: a schema
// that refers to itself below a property is as deep as the arguments are, and one
// that does so twice doubles with each level.
func checkCost(root *jsonschema.Schema) error {
	c := &cost{number: map[*jsonschema.Schema]int{}, seen: map[string]bool{}}
	c.todo = []load{{root: 1}}
	for len(c.todo) > 0 {
		next := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		if err := c.place(next); err != nil {
			return err
		}
	}
	return nil
}

// load is how often which schemas are held against one place.
type load map[*jsonschema.Schema]int

type cost struct {
	work   int
	looks  int                        // for places below, by schema and name
	number map[*jsonschema.Schema]int // for keys
	seen   map[string]bool
	todo   []load
}

// key is the same for the same load.
func (c *cost) key(l load) string {
	parts := make([]string, 0, len(l))
	for s, times := range l {
		if c.number[s] == 0 {
			c.number[s] = len(c.number) + 1
		}
		parts = append(parts, fmt.Sprintf("%d*%d", c.number[s], times))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// place counts what is held against a place, and finds what is held against the
// places below it.
func (c *cost) place(l load) error {
	k := c.key(l)
	if c.seen[k] {
		return nil
	}
	c.seen[k] = true
	all := load{}
	for s, times := range l {
		if err := c.here(s, times, all, 0); err != nil {
			return err
		}
	}
	return c.below(all)
}

// here adds s and what it holds against the same place.
func (c *cost) here(s *jsonschema.Schema, times int, all load, depth int) error {
	c.work += times
	if c.work > maxSchemaWork || depth > maxSchemaWork {
		return errCostlySchema
	}
	all[s] += times
	for _, sub := range samePlace(s) {
		if err := c.here(sub, times, all, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// samePlace are the schemas that s holds against the value that it is held against.
func samePlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, sub := range s.DependentSchemas {
		all = append(all, sub)
	}
	for _, sub := range s.Dependencies {
		if sub, ok := sub.(*jsonschema.Schema); ok {
			all = append(all, sub)
		}
	}
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// below finds the loads of the places below, each kind of place once: every named
// property, all others, every position of a tuple, all other elements, and names.
func (c *cost) below(all load) error {
	names, width := map[string]bool{}, 0
	for s := range all {
		for name := range s.Properties {
			names[name] = true
		}
		width = max(width, len(s.PrefixItems))
		if tuple, ok := s.Items.([]*jsonschema.Schema); ok {
			width = max(width, len(tuple))
		}
	}
	if c.looks += (len(names) + width + 3) * len(all); c.looks > maxSchemaLooks {
		return errCostlySchema
	}
	for name := range names {
		c.add(all, func(s *jsonschema.Schema) []*jsonschema.Schema { return ofProperty(s, name, true) })
	}
	c.add(all, func(s *jsonschema.Schema) []*jsonschema.Schema { return ofProperty(s, "", false) })
	for i := range width + 1 {
		c.add(all, func(s *jsonschema.Schema) []*jsonschema.Schema { return ofElement(s, i) })
	}
	c.add(all, func(s *jsonschema.Schema) []*jsonschema.Schema { return []*jsonschema.Schema{s.PropertyNames} })
	return nil
}

func (c *cost) add(all load, of func(*jsonschema.Schema) []*jsonschema.Schema) {
	next := load{}
	for s, times := range all {
		for _, sub := range of(s) {
			if sub != nil {
				next[sub] += times
			}
		}
	}
	if len(next) > 0 {
		c.todo = append(c.todo, next)
	}
}

// ofProperty is what s holds against a property of that name, or against one that
// nobody names; patterns may meet it all.
func ofProperty(s *jsonschema.Schema, name string, named bool) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	for p, sub := range s.PatternProperties {
		if !named || p.MatchString(name) {
			all = append(all, sub)
		}
	}
	if sub := s.Properties[name]; named && sub != nil {
		all = append(all, sub)
	} else if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		all = append(all, sub)
	}
	return append(all, s.UnevaluatedProperties)
}

// ofElement is what s holds against an element of an array.
func ofElement(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Contains, s.UnevaluatedItems}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		all = append(all, items)
	case []*jsonschema.Schema:
		if i < len(items) {
			return append(all, items[i])
		}
		if rest, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
			all = append(all, rest)
		}
	}
	if i < len(s.PrefixItems) {
		return append(all, s.PrefixItems[i])
	}
	return append(all, s.Items2020)
}
