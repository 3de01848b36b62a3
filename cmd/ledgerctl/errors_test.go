package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// TestExitCodes has a command for each code of `ledgerctl help exit-codes`.
func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		sql  string
		args []string
		code int
		json string // of the error's code
	}{
		{"ok", t.Context(), "", []string{"verify"}, 0, ""},
		{"ok, nothing there", t.Context(), "", []string{"runs", "list", "--tenant", "nobody"}, 0, ""},
		{"failed", t.Context(), "", []string{"runs", "show", "00000000000000000000000001"}, 1, "not_found"},
		{"found", t.Context(), "UPDATE runs SET lease_until = 1 WHERE state = 'running'", []string{"stuck"}, 1, "failed"},
		{"no such command", t.Context(), "", []string{"rnus"}, 2, "usage"},
		{"no such flag", t.Context(), "", []string{"runs", "list", "--nope"}, 2, "usage"},
		{"tampered", t.Context(), "UPDATE events SET bytes = x'00' WHERE seq = 7", []string{"verify"}, 3, "tampered"},
		{"incomplete", t.Context(), "DELETE FROM events WHERE seq = 13", []string{"verify"}, 4, "incomplete"},
		{"interrupted", interrupted, "", []string{"verify"}, 130, "interrupted"},
	}
	help := exitCodesHelp().Long
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := fill(dir); err != nil {
				t.Fatal(err)
			}
			if tt.sql != "" {
				raw(t, "", dir, func(ctx context.Context, tx sqlstore.Tx) error { _, err := tx.Exec(ctx, tt.sql); return err })
			}
			for _, args := range [][]string{tt.args, append(tt.args[:len(tt.args):len(tt.args)], "-o", "json")} {
				var out, stderr strings.Builder
				a := newApp(strings.NewReader(""), &out, &stderr, func() time.Time { return asked })
				if code := a.run(tt.ctx, append(args, "--dir", filepath.Clean(dir))); code != tt.code {
					t.Errorf("%q: exit code %d, want %d: %s", args, code, tt.code, &stderr)
				}
				if want := fmt.Sprintf(`{"error":{"code":%q,`, tt.json); len(args) > len(tt.args) && tt.json != "" && !strings.HasPrefix(stderr.String(), want) {
					t.Errorf("%q says %s, want %s", args, &stderr, want)
				}
			}
			if !regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d  `, tt.code)).MatchString(help) || tt.json != "" && !strings.Contains(help, tt.json) {
				t.Errorf("help exit-codes does not name %d or %s", tt.code, tt.json)
			}
		})
	}
}

// TestEveryErrorHasACode: each error of the ledger has a code of its own in JSON.
func TestEveryErrorHasACode(t *testing.T) {
	theirs, err := os.ReadFile("../../ledger/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t(Err\w+)\s+= errors\.New`).FindAllStringSubmatch(string(theirs), -1)
	if len(names) < 25 {
		t.Fatalf("%d errors were found", len(names))
	}
	for _, n := range names {
		if !strings.Contains(string(ours), "{ledger."+n[1]+",") {
			t.Errorf("ledger.%s has no code: add it to errorCodes", n[1])
		}
	}
	for _, c := range errorCodes() {
		if got := codeOf(fmt.Errorf("do something: %w", c.err)); got != c.code {
			t.Errorf("%v has code %s, want %s", c.err, got, c.code)
		}
	}
	if got := codeOf(errors.Join(ledger.ErrDatabaseFull, ledger.ErrUnavailable)); got != "database_full" {
		t.Errorf("a full disk is %s", got)
	}
}
