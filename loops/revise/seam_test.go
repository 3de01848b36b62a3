package revise_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
)

// PR-01: what stands at the seam has no words of workflow engines in it, and
// values are of any type the host likes; TestValuesAreTheHosts in package runtime
// shows that they come through as they are.
func TestSeam(t *testing.T) {
	banned := regexp.MustCompile(`(?i)workflow|node|step`)
	var look func(typ reflect.Type)
	seen := map[reflect.Type]bool{}
	look = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || !strings.Contains(typ.PkgPath(), "daybook") {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			if banned.MatchString(f.Name) || banned.MatchString(f.Tag.Get("json")) {
				t.Errorf("%s.%s %s", typ, f.Name, f.Tag)
			}
			look(f.Type)
		}
	}
	for _, v := range []any{
		revise.Options{},
		revise.Context{},
		revise.Verdict{},
		revise.Callbacks{},
		loops.Needs{},
		loops.CheckArtifact{},
		loops.ReviseArtifact{},
		loops.AcceptArtifact{},
		loops.RejectArtifact{},
		events.ArtifactValidationStarted{},
		events.ArtifactValidationFinished{},
		events.ArtifactRevisionStarted{},
		events.ArtifactFinished{},
		events.ArtifactFailed{},
	} {
		look(reflect.TypeOf(v))
	}
	if len(seen) < 12 {
		t.Errorf("looked at %d types only", len(seen))
	}
}
