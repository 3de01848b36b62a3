package testenv_test

import (
	"io"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
)

func TestChildrenAndGone(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if !slices.Contains(testenv.Children(t), strconv.Itoa(pid)) || testenv.Gone(pid) {
		t.Errorf("%d is not among %v, or gone", pid, testenv.Children(t))
	}
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(testenv.Children(t), strconv.Itoa(pid)) || !testenv.Gone(pid) {
		t.Errorf("%d is among %v, or not gone", pid, testenv.Children(t))
	}
}
