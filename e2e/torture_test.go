//go:build daybook_faults

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/daybookhq/daybook/internal/torture"
)

// L5: random faults for a short while, with the seed in the log, on the system
// that ships and on an embedded one. The long one is `make torture`.
// RELIABILITY rows 10, 12, 13, 15, 24.
func TestTorture(t *testing.T) {
	for seed, args := range map[int][]string{7: {"--for", "25s"}, 8: {"--for", "12s", "--embedded"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "torture")
			cmd := exec.Command(binary(t, "cmd/runner"), append([]string{
				"torture", "-q", "-o", "json", "--seed", fmt.Sprint(seed), "--data", dir, "--drain", "4m", "--open", "30",
			}, args...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			keepLogs(t, filepath.Join(dir, "logs"))
			var r torture.Report
			if jerr := json.Unmarshal(out.Bytes(), &r); jerr != nil {
				t.Fatalf("%v, %v:\n%s%s", err, jerr, out.String(), errs.String())
			}
			if !r.Passed() || err != nil {
				t.Fatalf("%v: %s\n%q\n%s", err, r.Headline(), r.Findings, out.String())
			}
			t.Logf("%s", out.String())
		})
	}
}
