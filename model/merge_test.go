package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/model"
)

type named string

func (named) Call(context.Context, model.Request) (model.Response, error) {
	return model.Response{}, nil
}

// PR-100: own and shipped providers are found through one map, and no name is two's.
func TestMerge(t *testing.T) {
	own, shipped := map[string]model.Model{"a": named("own a")}, map[string]model.Model{"b": named("shipped b")}
	all, err := model.Merge(own, nil, shipped)
	if err != nil || len(all) != 2 || all["a"] != named("own a") || all["b"] != named("shipped b") || len(own) != 1 {
		t.Errorf("%v %v, own %v", all, err, own)
	}
	all, err = model.Merge(own, map[string]model.Model{"a": named("x"), "c": nil}, map[string]model.Model{"a": named("y")})
	if all != nil || !errors.Is(err, model.ErrTwice) || strings.Count(err.Error(), `model "a"`) != 2 || !strings.Contains(err.Error(), `model "c" is nil`) {
		t.Errorf("%v %v", all, err)
	}
	if all, err := model.Merge(); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
}
