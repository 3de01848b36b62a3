package redact

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// maxVisits bounds the copy of a cyclic value: values that all know each other
// have more paths through them than there is time.
const maxVisits = 1 << 16

// acyclic copies v as encoding/json would encode it, with "[Circular]" for
// each reference to a value that contains the reference. It is used only for
// values with a cycle: it is slow, and knows no more of struct tags than name,
// "-", omitempty and omitzero.
func acyclic(v any) any {
	c := copier{above: map[any]bool{}}
	return c.value(reflect.ValueOf(v))
}

type copier struct {
	above  map[any]bool // references that contain the current value
	visits int
}

type reference struct {
	pointer uintptr
	length  int
	typ     reflect.Type
}

func (c *copier) value(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		return c.value(v.Elem())
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return nil
		}
		r := reference{pointer: v.Pointer(), typ: v.Type()}
		if v.Kind() == reflect.Slice {
			r.length = v.Len()
		}
		if c.visits++; c.above[r] || c.visits > maxVisits {
			return circular
		}
		c.above[r] = true
		defer delete(c.above, r)
	}
	if out, ok := c.marshaled(v); ok {
		return out
	}
	switch v.Kind() {
	case reflect.Pointer:
		return c.value(v.Elem())
	case reflect.Map:
		return c.mapping(v)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			return v.Bytes()
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = c.value(v.Index(i))
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		c.fields(v, out)
		return out
	}
	if v.CanInterface() {
		return v.Interface()
	}
	return nil
}

// marshaled encodes a value that knows how to, if that ends.
func (c *copier) marshaled(v reflect.Value) (any, bool) {
	if !v.CanInterface() {
		return nil, false
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		raw, err := json.Marshal(v.Interface())
		if err != nil {
			return circular, true
		}
		return json.RawMessage(raw), true
	}
	return nil, false
}

func (c *copier) mapping(v reflect.Value) any {
	out := map[string]any{}
	for it := v.MapRange(); it.Next(); {
		key := it.Key()
		name := key.String()
		if key.Kind() != reflect.String {
			name = keyText(key)
		}
		out[name] = c.value(it.Value())
	}
	return out
}

// keyText is a map key that is not a string, as encoding/json writes it.
func keyText(key reflect.Value) string {
	one := reflect.MakeMap(reflect.MapOf(key.Type(), reflect.TypeFor[bool]()))
	one.SetMapIndex(key, reflect.ValueOf(true))
	raw, err := json.Marshal(one.Interface())
	if err != nil {
		return circular
	}
	var names map[string]bool
	if json.Unmarshal(raw, &names) == nil {
		for name := range names {
			return name
		}
	}
	return circular
}

func (c *copier) fields(v reflect.Value, out map[string]any) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := f.Tag.Get("json")
		name, rest, _ := strings.Cut(tag, ",")
		if tag == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			inner := v.Field(i)
			if inner.Kind() == reflect.Pointer && !inner.IsNil() {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				c.visits++
				if c.visits > maxVisits {
					return
				}
				embedded := map[string]any{}
				c.fields(inner, embedded)
				for k, e := range embedded {
					if _, ok := out[k]; !ok {
						out[k] = e
					}
				}
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if v.Field(i).IsZero() && (strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero")) {
			continue
		}
		out[name] = c.value(v.Field(i))
	}
}
