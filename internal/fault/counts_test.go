package fault

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCounts(t *testing.T) {
	tests := []struct {
		name, file string
		want       map[string]Count
	}{
		{"of an empty file", "", map[string]Count{}},
		{"adds up", "a.x\t-\nb.y\tkill\na.x\tdelay,kill\na.x\t-\n", map[string]Count{"a.x": {3, 1}, "b.y": {1, 1}}},
		{"leave out a torn last line", "a.x\t-\na.x\tki", map[string]Count{"a.x": {1, 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "counts")
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Counts(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("of no file are none", func(t *testing.T) {
		got, err := Counts(filepath.Join(t.TempDir(), "none"))
		if err != nil || len(got) != 0 {
			t.Errorf("Counts = %v, %v", got, err)
		}
	})
	t.Run("of something else fail", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other")
		if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Counts(path); err == nil {
			t.Error("no error")
		}
	})
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Names() {
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
	}
}
