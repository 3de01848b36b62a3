package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ledgerctl is what to type for that command, by how this one was started: with
// go run, or as a binary, its friend beside it or in the PATH.
func ledgerctl() string {
	self, err := os.Executable()
	if err == nil && strings.Contains(self, string(filepath.Separator)+"go-build") {
		if _, err := os.Stat("cmd/ledgerctl"); err == nil {
			return "go run ./cmd/ledgerctl"
		}
		return "go run github.com/daybookhq/daybook/cmd/ledgerctl"
	}
	if _, found := exec.LookPath("ledgerctl"); found != nil && err == nil {
		if beside := filepath.Join(filepath.Dir(self), "ledgerctl"); isFile(beside) {
			return quote(beside)
		}
	}
	return "ledgerctl"
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// quote makes one word for a shell of s.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+=", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
