//go:build unix

package confined

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Read is what a child does first: it reads its order, whose head it decodes.
func Read(r io.Reader, head any) (body []byte, err error) {
	b := bufio.NewReader(r)
	line, err := b.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	if err := json.Unmarshal(line, head); err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	if body, err = io.ReadAll(b); err != nil {
		return nil, fmt.Errorf("read what follows the order: %w", err)
	}
	return body, nil
}

// Limits are what a child keeps.
type Limits struct {
	// Memory is what it may write to beyond what it has now, in bytes. Linux
	// enforces it.
	Memory uint64
	// CPU is processor time, of all its threads, beyond what it has had. It is
	// counted in whole seconds, and one more.
	CPU time.Duration
}

// Confine gives up everything else, for good: this process opens no file and no
// socket any more and starts no program, even as root. On Linux (amd64, arm64)
// the kernel also refuses every system call but the few that a Go program needs
// to compute and to answer; where it can do that. An error means that a limit
// could not be set: do not go on.
func Confine(l Limits) error {
	// The runtime opens what its timers need on first use.
	time.AfterFunc(time.Hour, func() {}).Stop()
	debug.SetMemoryLimit(int64(l.Memory / 2)) // collect in time
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("confine: processor time so far: %w", err)
	}
	cpu := time.Duration(used.Utime.Nano()+used.Stime.Nano()) + l.CPU
	for _, x := range []struct {
		what int
		most uint64
	}{
		// Address space, which RLIMIT_AS counts, Go reserves by the gigabyte.
		{syscall.RLIMIT_DATA, dataSize() + l.Memory},
		{syscall.RLIMIT_CPU, uint64(cpu/time.Second) + 1},
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_FSIZE, 0},
		{syscall.RLIMIT_NOFILE, 0}, // no new one: those that are open stay open
	} {
		if err := syscall.Setrlimit(x.what, &syscall.Rlimit{Cur: x.most, Max: x.most}); err != nil {
			return fmt.Errorf("confine: set limit %d: %w", x.what, err)
		}
	}
	return filter()
}

// dataSize is what counts against RLIMIT_DATA already; 0 where the system does
// not say.
func dataSize() uint64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(l, "VmData:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 40)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

// exitMemory is what a child exits with that is above its limit.
const exitMemory = 90

// WatchHeap looks at the heap of this process every 2 ms, and ends the process
// when it has grown by more than limit bytes. It returns when done is closed.
func WatchHeap(limit uint64, done <-chan struct{}) {
	debug.SetGCPercent(50) // what is not needed any more counts until it is collected
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	limit += sample[0].Value.Uint64()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if metrics.Read(sample); sample[0].Value.Uint64() > limit {
			os.Exit(exitMemory)
		}
	}
}
