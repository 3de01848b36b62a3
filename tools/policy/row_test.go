package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/policy"
)

var rowFields = policy.Fields{
	"id": {}, "owner": {}, "tool": {}, "run": {}, "cost": {Number: true}, "arguments": {}, "list": {Fields: policy.Fields{"severity": {}}},
	"totals": {Fields: policy.Fields{"cost": {Number: true}, "turns": {}}}, "waits_for": {Fields: policy.Fields{"reason": {}}}, "time": {}, "repeated": {Bool: true},
}

const row = `{"id":9007199254740993,"tool":"refund","run":"r1","cost":"0.000000000001","totals":{"cost":"9223372.0368547758080001","turns":3},
	"arguments":{"amount":12.50,"deep":{"x":[1,2]}},"list":[{"severity":"error"},{"severity":"note"}],"time":"2026-01-15T12:00:00Z"}`

// TestRow: amounts and integers are exact, names are those of the row, and what is not
// there compares with nothing.
func TestRow(t *testing.T) {
	for when, want := range map[string]bool{
		`id == 9007199254740993`:                                   true,
		`id == 9007199254740992`:                                   false,
		`cost > 0 and cost < 0.00000000001`:                        true,
		`totals.cost > 9223372.036854`:                             true,
		`totals.cost < 9223372.036855`:                             true,
		`totals.turns in [2, 3]`:                                   true,
		`tool == "refund" && run startsWith "r"`:                   true,
		`time >= "2026-01-15"`:                                     true,
		`time < "2026-01-15T12"`:                                   false,
		`arguments.amount * 2 == 25`:                               true,
		`2 in arguments.deep.x`:                                    true,
		`any(list, .severity == "error")`:                          true,
		`all(list, #.severity == "error")`:                         false,
		`not repeated`:                                             true,
		`owner == nil`:                                             true,
		`owner == "x" or owner > "a" or owner contains "a"`:        false,
		`owner matches "a"`:                                        false,
		`waits_for.reason == "timer"`:                              false,
		`(waits_for.reason ?? "none") == "none"`:                   true,
		`any(arguments.nothing, # == 1)`:                           false,
		`"x" in arguments.nothing`:                                 false,
		`not (waits_for.reason == "timer") and tool in ["refund"]`: true,
	} {
		r, err := policy.CompileRow(when, rowFields)
		if err != nil {
			t.Errorf("%s: %v", when, err)
			continue
		}
		if got, err := r.Holds(json.RawMessage(row)); got != want || err != nil {
			t.Errorf("%s is %v, %v", when, got, err)
		}
	}
}

func TestRowFaults(t *testing.T) {
	for when, want := range map[string]string{
		``:                                  `is empty`,
		`tol == "x"`:                        `there is no field "tol"; did you mean "tool"? (column 1)`,
		`unheard == 1`:                      `there is no field "unheard"; there are arguments, cost`,
		`totals.trns > 1`:                   `totals has no field "trns"; did you mean "turns"?`,
		`any(list, .severity == now)`:       `there is no clock here`,
		`args.x == 1`:                       `there is no field "args"`,
		`tool = "x"`:                        `unexpected token`,
		`"text"`:                            `want true or false`,
		strings.Repeat("tool == 1 &&", 999): `at most 2000`,
	} {
		if _, err := policy.CompileRow(when, rowFields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
	for when, want := range map[string]string{
		`tool > 1`:                                          `want a text`, // a refund is no number
		`arguments.amount startsWith "1"`:                   `arguments.amount: want a text, got a number`,
		`any(1..9, any(arguments.deep.x, # == -1))`:         ``,
		`all(list, any(list, any(list, .severity != "x")))`: ``,
		`arguments.amount.cents == 1`:                       `arguments.amount: want an object, got a number`,
	} {
		r, err := policy.CompileRow(when, rowFields)
		if err != nil || want == "" {
			continue
		}
		if _, err := r.Holds(json.RawMessage(row)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "12.5") {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
}

// TestRowIsBounded: a row that a model made large cannot keep the filter busy.
func TestRowIsBounded(t *testing.T) {
	list := strings.Repeat("1,", 20_000) + "1"
	r, err := policy.CompileRow(`any(arguments.l, any(arguments.l, # == -1))`, rowFields)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Holds(json.RawMessage(`{"arguments":{"l":[` + list + `]}}`)); err == nil || !strings.Contains(err.Error(), "too much to look at") {
		t.Errorf("error %v", err)
	}
}
