package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name   string
		script string
		code   int
		stdout string
	}{
		{"hands the URL on", `printf %s "${DAYBOOK_TEST_POSTGRES_URL%%127*}"`, 0, "postgres://postgres@"},
		{"keeps the exit code", "exit 7", 7, ""},
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
		if code, err := run(t.Context(), []string{"--"}, nil, nil); code != 2 || err == nil {
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
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var stdout bytes.Buffer
		code, err := run(ctx, []string{"sh", "-c", "echo $" + urlVariable + "; exec sleep 60"}, &stdout, nil)
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
