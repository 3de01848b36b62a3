//go:build !daybook_faults

package fault

import "testing"

func TestPointsCostNothing(t *testing.T) {
	t.Setenv("DAYBOOK_FAULTS", "begin.after_commit=panic")
	allocs := testing.AllocsPerRun(100, func() {
		Point("begin.after_commit")
		Point("not registered: nobody looks")
		if err := Err("begin.after_commit"); err != nil {
			t.Error(err)
		}
	})
	if allocs != 0 || Enabled {
		t.Errorf("%v allocations, Enabled = %v", allocs, Enabled)
	}
}

func TestCheckRefusesFaultsItCannotGive(t *testing.T) {
	if err := Check(); err != nil {
		t.Errorf("nothing asked for: %v", err)
	}
	t.Setenv("DAYBOOK_FAULTS", "begin.after_commit=kill")
	if Check() == nil {
		t.Error("Check() = nil although faults were asked for")
	}
}
