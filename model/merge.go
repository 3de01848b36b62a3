package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrTwice marks a name under which two models were given.
var ErrTwice = errors.New("there are two models of that name")

// Merge puts models of several sources together, such as those of a file of
// providers and a program's own: what runtime.Config.Models wants. The maps are not
// changed. A name that two have is refused, all of them in one error that wraps
// [ErrTwice]: which of two models answers must not hang on an order. So is one
// without a model.
func Merge(sources ...map[string]Model) (map[string]Model, error) {
	all := map[string]Model{}
	var errs []error
	for _, s := range sources {
		for _, name := range slices.Sorted(maps.Keys(s)) {
			switch _, twice := all[name]; {
			case s[name] == nil:
				errs = append(errs, fmt.Errorf("model %q is nil", name))
			case twice:
				errs = append(errs, fmt.Errorf("model %q: %w: rename one", name, ErrTwice))
			default:
				all[name] = s[name]
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}
