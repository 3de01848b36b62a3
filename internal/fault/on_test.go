//go:build daybook_faults

package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseNamesTheBadPartAndTheRemedy(t *testing.T) {
	tests := []struct{ name, spec, seed, bad, remedy string }{
		{"no action", "begin.after_commit", "", `"begin.after_commit"`, "begin.after_commit=kill"},
		{"unknown point", "begin.aftr_commit=kill", "", `"begin.aftr_commit"`, "begin.after_commit"},
		{"unknown action", "renew.before=die", "", `"die"`, "kill"},
		{"argument too many", "renew.before=kill:9", "", `"kill:9"`, "write kill"},
		{"stop without duration", "renew.before=stop", "", `""`, "stop:20s"},
		{"delay of nonsense", "renew.before=delay:soon", "", `"soon"`, "delay:50ms"},
		{"negative delay", "renew.before=delay:-1s", "", `"-1s"`, "positive"},
		{"nameless error", "renew.before=err", "", "err", "err:timeout"},
		{"hit zero", "renew.before=kill@0", "", `"0"`, "@3"},
		{"trigger of nonsense", "renew.before=kill@often", "", `"often"`, "@p0.05"},
		{"probability over one", "renew.before=kill@p5", "", `"5"`, "@p0.05"},
		{"probability not a number", "renew.before=kill@pNaN", "", `"NaN"`, "@p0.05"},
		{"seed", "renew.before=kill@p0.5", "-1", `"-1"`, "write 42"},
		{"second rule", "renew.before=kill;x", "", `rule "x"`, "point=action"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.spec, tt.seed)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range []string{tt.bad, tt.remedy} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %s", err, want)
				}
			}
		})
	}
}

func newTestSet(t *testing.T, spec, seed string) (*set, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counts")
	s, err := newSet(spec, seed, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.counts.Close() })
	return s, path
}

func TestTriggers(t *testing.T) {
	firedAt := func(t *testing.T, spec, seed string, hits int) []int {
		s, _ := newTestSet(t, spec, seed)
		var at []int
		for i := range hits {
			if s.hit("begin.after_commit") != nil {
				at = append(at, i+1)
			}
		}
		return at
	}
	t.Run("none is every hit", func(t *testing.T) {
		if diff := cmp.Diff([]int{1, 2, 3}, firedAt(t, "begin.after_commit=err:x", "", 3)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a number is that hit alone", func(t *testing.T) {
		if diff := cmp.Diff([]int{3}, firedAt(t, "begin.after_commit=err:x@3", "", 9)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a probability is about kept and repeats with its seed", func(t *testing.T) {
		const spec = "begin.after_commit=err:x@p0.2"
		at := firedAt(t, spec, "7", 1000)
		if len(at) < 150 || len(at) > 250 {
			t.Errorf("fired %d times in 1000", len(at))
		}
		if diff := cmp.Diff(at, firedAt(t, spec, "7", 1000)); diff != "" {
			t.Errorf("same seed: %s", diff)
		}
		if cmp.Equal(at, firedAt(t, spec, "8", 1000)) {
			t.Error("another seed changed nothing")
		}
	})
	t.Run("another point is left alone", func(t *testing.T) {
		if at := firedAt(t, "begin.before_send=err:x", "", 3); at != nil {
			t.Errorf("fired at %v", at)
		}
	})
}

func TestErrors(t *testing.T) {
	tests := []struct {
		action string
		want   error
	}{
		{"exec_and_timeout", context.DeadlineExceeded},
		{"err:timeout", context.DeadlineExceeded},
		{"err:canceled", context.Canceled},
		{"err:eof", io.ErrUnexpectedEOF},
		{"err:reset", syscall.ECONNRESET},
		{"err:refused", syscall.ECONNREFUSED},
		{"err:no_space", syscall.ENOSPC},
		{"err:fenced", nil},
	}
	for _, tt := range tests {
		t.Run(tt.action, func(t *testing.T) {
			s, _ := newTestSet(t, "end.after_commit="+tt.action, "")
			err := s.hit("end.after_commit")
			if err == nil || err.Point != "end.after_commit" || err.Name != strings.TrimPrefix(tt.action, "err:") {
				t.Fatalf("err = %+v", err)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%v is not %v", err, tt.want)
			}
		})
	}
}

func TestHitsAreCounted(t *testing.T) {
	s, path := newTestSet(t, "begin.after_commit=delay:1ms@2;begin.after_commit=err:x@2", "")
	for range 3 {
		_ = s.hit("begin.after_commit")
	}
	_ = s.hit("renew.before")
	got, err := Counts(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Count{"begin.after_commit": {Hits: 3, Fired: 1}, "renew.before": {Hits: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestUnregisteredPointPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Point("not.registered")
}

// TestMain makes this binary its own child: the process that the tests below
// do things to.
func TestMain(m *testing.M) {
	if os.Getenv("DAYBOOK_FAULT_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	for i := range 5 {
		Point("exec.after_reply")
		fmt.Printf("passed %d\n", i+1)
	}
}

func child(t *testing.T, faults string) (out string, counts map[string]Count, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counts")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DAYBOOK_FAULT_TEST_CHILD=1", "DAYBOOK_FAULTS="+faults, "DAYBOOK_FAULT_COUNTS="+path)
	b, err := cmd.CombinedOutput()
	counts, cerr := Counts(path)
	if cerr != nil {
		t.Fatal(cerr)
	}
	return string(b), counts, err
}

func TestProcess(t *testing.T) {
	t.Run("killed at the third hit, which is counted", func(t *testing.T) {
		out, counts, err := child(t, "exec.after_reply=kill@3")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("err = %v, want SIGKILL", err)
		}
		if !strings.Contains(out, "passed 2") || strings.Contains(out, "passed 3") {
			t.Errorf("output = %q", out)
		}
		if diff := cmp.Diff(map[string]Count{"exec.after_reply": {3, 1}}, counts); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("stopped and woken", func(t *testing.T) {
		begin := time.Now()
		out, _, err := child(t, "exec.after_reply=stop:300ms@2")
		if err != nil || !strings.Contains(out, "passed 5") {
			t.Errorf("err = %v, output = %q", err, out)
		}
		if took := time.Since(begin); took < 300*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
	t.Run("panics", func(t *testing.T) {
		out, _, err := child(t, "exec.after_reply=panic@4")
		if err == nil || !strings.Contains(out, "injected panic at exec.after_reply") {
			t.Errorf("err = %v, output = %q", err, out)
		}
	})
	t.Run("asked for an error that it cannot return", func(t *testing.T) {
		out, _, err := child(t, "exec.after_reply=err:x")
		if err == nil || !strings.Contains(out, "returns no errors") {
			t.Errorf("err = %v, output = %q", err, out)
		}
	})
	t.Run("told nonsense", func(t *testing.T) {
		out, _, err := child(t, "exec.after_reply=die")
		if err == nil || !strings.Contains(out, "there is no action") {
			t.Errorf("err = %v, output = %q", err, out)
		}
	})
}
