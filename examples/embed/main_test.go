package main

import (
	"bytes"
	"os"
	"testing"
)

func TestServiceWithAToolOfItsOwn(t *testing.T) {
	out, err := run(t.Context(), t.TempDir())
	if err != nil || out != `run finished: "Sent."` {
		t.Errorf("run = %q, %v", out, err)
	}
	src, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(src, []byte("\n")); n > 70 {
		t.Errorf("the example has %d lines; it is to show how little is needed", n)
	}
}
