package testenv

import (
	"strings"
	"testing"
)

func TestNewEnough(t *testing.T) {
	for _, v := range []string{"v18.19.0\n", "v20.20.2", "v24.1.0"} {
		if err := newEnough(v); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	for _, v := range []string{"v16.20.0\n", "v9.0.0", "", "node"} {
		if err := newEnough(v); err == nil || !strings.Contains(err.Error(), "want 18") {
			t.Errorf("%q: %v", v, err)
		}
	}
}
