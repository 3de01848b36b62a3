package model_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/daybookhq/daybook/model"
)

func TestRequestHash(t *testing.T) {
	req := func(args string) model.Request {
		return model.Request{Model: "m", Messages: []model.Message{{Role: model.Assistant, Calls: []model.Call{{ID: "t1.c0", Name: "x", Arguments: json.RawMessage(args)}}}}}
	}
	same := []model.Request{req(`{"a":1,"b":"é"}`), req(` { "b" : "\u00e9", "a" : 1 } `)}
	same[1].Tools = []model.Spec{}
	a, err := same[0].Hash()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := same[1].Hash(); err != nil || a != b {
		t.Errorf("equal requests hash to %s and %s (%v)", a, b, err)
	}
	if c, _ := req(`{"a":2,"b":"é"}`).Hash(); c == a {
		t.Error("other arguments, same hash")
	}
	x, _ := model.Request{Model: "m"}.Hash()
	y, _ := model.Request{Model: "m", Messages: []model.Message{}}.Hash()
	if x != y {
		t.Error("nil and empty messages hash differently")
	}
	if _, err := req(`{`).Hash(); err == nil {
		t.Error("hashed what is no JSON")
	}
}

func TestArguments(t *testing.T) {
	tests := []struct {
		name, text, want string
		malformed        bool
	}{
		{"an object stays as written", `{"b":1, "a":2}`, `{"b":1, "a":2}`, false},
		{"none is the empty object", ``, `{}`, false},
		{"another value is for the dispatcher to refuse", `[1]`, `[1]`, false},
		{"half an object", `{"a":`, `"{\"a\":"`, true},
		{"repeated names", `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`, true},
		{"bytes that are no text", "\xff", `"\ufffd"`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw, malformed := model.Arguments(tt.text)
			if string(raw) != tt.want || malformed != tt.malformed {
				t.Errorf("Arguments(%q) = %s, %t, want %s, %t", tt.text, raw, malformed, tt.want, tt.malformed)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	fixed := func(v float64) func() float64 { return func() float64 { return v } }
	tests := []struct {
		name    string
		attempt int
		after   time.Duration
		rnd     func() float64
		want    time.Duration
	}{
		{"the first", 1, 0, nil, time.Second},
		{"no attempt counts as the first", 0, 0, nil, time.Second},
		{"doubles", 4, 0, nil, 8 * time.Second},
		{"is capped", 8, 0, nil, model.BackoffCap},
		{"no overflow", math.MaxInt, 0, nil, model.BackoffCap},
		{"jitter takes half at most", 4, 0, fixed(0), 4 * time.Second},
		{"jitter in between", 4, 0, fixed(0.5), 6 * time.Second},
		{"the provider's wish over the cap", 1, time.Hour, nil, time.Hour},
		{"the provider's wish is not undercut", 1, time.Hour, fixed(0), time.Hour},
		{"the provider's wish is spread", 1, time.Hour, fixed(0.5), time.Hour + 450*time.Second},
		{"a shorter wish does not speed up", 4, time.Second, nil, 8 * time.Second},
		{"no overflow of a wish", 1, math.MaxInt64, fixed(0.9), math.MaxInt64},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := model.Backoff(tt.attempt, tt.after, tt.rnd); got != tt.want {
				t.Errorf("Backoff(%d, %v) = %v, want %v", tt.attempt, tt.after, got, tt.want)
			}
		})
	}
}
