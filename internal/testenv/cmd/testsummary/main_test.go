package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	tests := []struct {
		name, in string
		ok       bool
		want     []string
		not      []string
	}{
		{
			"a pass is a line per package",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"    chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"-test.shuffle 7\n"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`,
			true,
			[]string{"ok  \tp\t0.1s\n", "\n1 passed, 0 failed, 0 skipped\n"},
			[]string{"chatter", "PASS", "shuffle"},
		},
		{
			"a failure shows its output, a skip its reason",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: no such thing\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"-test.shuffle 8\n"}
{"Action":"fail","Package":"p"}`,
			false,
			[]string{"-test.shuffle 8", "a_test.go:1: wrong", "p TestB: b_test.go:1: no such thing", "\n0 passed, 1 failed, 1 skipped\n"},
			nil,
		},
		{
			"a package that does not build",
			`{"Action":"build-output","ImportPath":"p [p.test]","Output":"p.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"p [p.test]"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			false,
			[]string{"syntax error", "0 passed, 1 failed, 0 skipped"},
			nil,
		},
		{
			"a test that never ended",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`,
			false,
			[]string{"panic: test timed out", "0 passed, 1 failed, 0 skipped"},
			nil,
		},
		{"something else than JSON", "go: no such package\n", false, []string{"go: no such package", "0 passed, 0 failed"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := &summary{out: &out, output: map[test]*strings.Builder{}, builds: map[string]*strings.Builder{}}
			if err := s.read(strings.NewReader(tt.in)); err != nil {
				t.Fatal(err)
			}
			if ok := s.close(); ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, out.String())
				}
			}
			for _, not := range tt.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("output has %q:\n%s", not, out.String())
				}
			}
		})
	}
}
