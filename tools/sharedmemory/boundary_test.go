package sharedmemory_test

import (
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/sharedmemory"
)

func TestBoundary(t *testing.T) {
	t.Run("SE-03 shared text reaches no disk and no memory of the model's own", func(t *testing.T) {
		entries, err := os.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		allowed := "cmp context errors fmt iter regexp slices strings unicode unicode/utf16 unicode/utf8 " +
			"github.com/daybookhq/daybook/events github.com/daybookhq/daybook/tools"
		n := 0
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, im := range f.Imports {
				if n++; !strings.Contains(" "+allowed+" ", " "+strings.Trim(im.Path.Value, `"`)+" ") {
					t.Errorf("%s imports %s: can it keep text?", e.Name(), im.Path.Value)
				}
			}
		}
		if n == 0 {
			t.Error("no imports were looked at")
		}
	})
	t.Run("SE-04 the host implements one method, and is told who asks", func(t *testing.T) {
		if n := reflect.TypeFor[sharedmemory.Provider]().NumMethod(); n != 1 {
			t.Errorf("%d methods", n)
		}
		for f := range reflect.TypeFor[sharedmemory.Context]().Fields() {
			if f.Type.Kind() != reflect.String && f.Type.Kind() != reflect.Array {
				t.Errorf("%s is a %s: the core holds no credentials", f.Name, f.Type)
			}
		}
	})
}
