//go:build linux

package wasm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/sandbox/wasm"
)

// peak is the most memory that this process has had since reset, in bytes.
func peak(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		var kb int64
		if n, _ := fmt.Sscanf(l, "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("the kernel does not say")
	return 0
}

func reset(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// deep is a module whose one function nests blocks as deep as its size allows,
// which takes the compiler seconds.
func deep() []byte {
	const n = 10_000
	return module(append(bytes.Repeat([]byte{0x02, 0x40}, n), bytes.Repeat([]byte{0x0b}, n)...), "")
}

// many is a module of as many large functions as fit.
func many() []byte {
	const functions, size = 30, 32_000
	body := append(bytes.Repeat([]byte{0x41, 1, 0x1a}, (size-2)/3), 0x0b)
	code := binary.AppendUvarint(nil, functions)
	for range functions {
		code = append(append(binary.AppendUvarint(code, uint64(len(body)+1)), 0), body...)
	}
	m := []byte("\x00asm\x01\x00\x00\x00")
	m = append(m, section(1, 1, 0x60, 0, 0)...)
	m = append(m, section(3, append(binary.AppendUvarint(nil, functions), make([]byte, functions)...)...)...)
	m = append(m, section(7, append(append([]byte{1}, name("_start")...), 0, 0)...)...)
	return append(m, section(10, code...)...)
}

// What a program takes is taken from its child: whatever it tries, and many of
// them at a time, the worker grows by next to nothing, and no child is left.
func TestBombsLeaveTheWorkerAlone(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	page := []byte{0x41, 1, 0x40, 0, 0x1a}      // memory.grow by one
	all := []byte{0x41, 0xff, 0xff, 3, 0x40, 0} // memory.grow by 65,535
	spam := iovec(4000) + strings.Repeat("spam", 1000)
	for _, tt := range []struct {
		name   string
		module []byte
	}{
		{"memory, page by page", module(loop(page...), "")},
		{"memory at once", module(loop(append(all, 0x1a)...), "")},
		{"a loop without end", module(loop(), "")},
		{"output without end", module(loop(write(1)...), spam)},
		{"the largest table", module(loop(), "", section(4, 1, 0x70, 0, 0x80, 0x80, 0x40)...)},
		{"a function that is hard to compile", deep()},
		{"a megabyte of code", many()},
	} {
		t.Run("SG-77 "+tt.name, func(t *testing.T) {
			s := open(t, wasm.Config{Timeout: time.Second, MaxMemory: 64 << 20, Parallel: 3})
			reset(t)
			before := peak(t)
			start := time.Now()
			var all sync.WaitGroup
			for range 6 { // twice as many as there is room for
				all.Go(func() {
					out, err := s.Execute(t.Context(), sandbox.Program{Code: encode(tt.module)})
					if err != nil || len(out.Stdout) > 20<<10 {
						t.Errorf("%+v, %v", out, err)
					}
				})
			}
			all.Wait()
			grown := peak(t) - before
			t.Logf("6 programs in %v; the worker grew by %d KiB to %d MiB", time.Since(start).Round(time.Millisecond), grown>>10, peak(t)>>20)
			if grown > 48<<20 {
				t.Errorf("the worker grew by %d MiB", grown>>20)
			}
			if left := testenv.Children(t); len(left) > 0 {
				t.Errorf("children are left: %v", left)
			}
		})
	}
}
