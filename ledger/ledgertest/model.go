package ledgertest

import "testing"

func testRunsProperty(t *testing.T, h Harness) {}
