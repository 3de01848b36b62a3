package scripted_test

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
)

// Whatever is in a policy and in an input: no panic, and the same answer twice.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"refunds.yaml", "faults.yaml"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, row())
	}
	f.Add([]byte("rules: [{when: {input: {a: {above: \"{{input.b.0}}\"}}}, answer: {text: \"{{input}}\"}}]"), `{"a":1e999,"b":[2]}`)
	f.Fuzz(func(t *testing.T, policy []byte, input string) {
		if bytes.Contains(policy, []byte("delay")) || bytes.Contains(policy, []byte("script:")) {
			t.Skip("takes its time, or is used up")
		}
		m, err := scripted.Parse("p.yaml", policy)
		if err != nil {
			return
		}
		r := model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: input}}}
		a, errA := m.Call(t.Context(), r)
		b, errB := m.Call(t.Context(), r)
		if !reflect.DeepEqual(a, b) || (errA == nil) != (errB == nil) {
			t.Fatalf("%+v, %v and %+v, %v to the same request", a, errA, b, errB)
		}
	})
}
