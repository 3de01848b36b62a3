package main

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name   string
		script string
		code   int
		stdout string
	}{
		{"hands the URL on and the exit code back", `printf %s "${DAYBOOK_TEST_POSTGRES_URL%%127*}"; exit 7`, 7, "postgres://postgres@"},
		{"is 1 for a signal", "kill -KILL $$", 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(urlVariable, "")
			var stdout, stderr bytes.Buffer
			code, _ := run(t.Context(), []string{"--", "sh", "-c", tt.script}, &stdout, &stderr)
			if code != tt.code || stdout.String() != tt.stdout {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
		})
	}
	t.Run("needs a command", func(t *testing.T) {
		if code, err := run(t.Context(), []string{"--"}, io.Discard, io.Discard); code != 2 || err == nil {
			t.Errorf("code %d, err %v", code, err)
		}
	})
	t.Run("uses the server it is given", func(t *testing.T) {
		t.Setenv(urlVariable, "postgres://elsewhere")
		var stdout bytes.Buffer
		code, err := run(t.Context(), []string{"sh", "-c", "echo $" + urlVariable}, &stdout, nil)
		if code != 0 || err != nil || strings.TrimSpace(stdout.String()) != "postgres://elsewhere" {
			t.Errorf("code %d, err %v, stdout %q", code, err, stdout.String())
		}
	})
	t.Run("stops the command and the server when told to", func(t *testing.T) {
		t.Setenv(urlVariable, "")
		ctx, cancel := context.WithCancel(t.Context())
		stdout := writer{then: cancel}
		code, err := run(ctx, []string{"sh", "-c", "echo $" + urlVariable + "; exec sleep 60"}, &stdout, io.Discard)
		if code != 1 || err == nil {
			t.Errorf("code %d, err %v", code, err)
		}
		_, port, _ := strings.Cut(stdout.String(), "127.0.0.1:")
		port, _, _ = strings.Cut(port, "/")
		if port == "" {
			t.Fatalf("stdout %q: the command never ran", stdout.String())
		}
		if err := exec.Command("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port).Run(); err == nil {
			t.Errorf("port %s still answers", port)
		}
	})
}

// A writer calls then when something has been written.
type writer struct {
	bytes.Buffer
	then func()
}

// ReadFrom hides that of the buffer, which would pass Write by.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

func (w *writer) Write(b []byte) (int, error) {
	defer w.then()
	return w.Buffer.Write(b)
}
