package bug

import "testing"

func TestWithoutTheTagNothingIsOn(t *testing.T) {
	if Enabled {
		t.Skip("built with daybook_bugs")
	}
	t.Setenv("DAYBOOK_BUG", string(EarlyProbe))
	for _, b := range All() {
		if On(b) {
			t.Errorf("%s is on", b)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[Bug]bool{}
	for _, b := range All() {
		if seen[b] {
			t.Errorf("%s is listed twice", b)
		}
		seen[b] = true
	}
}
