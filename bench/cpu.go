package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// tick is the unit of /proc/*/stat on Linux.
const tick = 10 * time.Millisecond

// processor counts the CPU time of this process (worker, projector, NATS server)
// and of PostgreSQL, if that runs on this machine. On a busy machine it is the
// figure that says what an operation costs.
type processor struct {
	postmaster string // process id; empty if not known
}

func newProcessor(ctx context.Context, dsn string) processor {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return processor{} // the parts will say so
	}
	defer func() { _ = conn.Close(ctx) }()
	if f := procStat(strconv.Itoa(int(conn.PgConn().PID()))); f != nil && f[0] == "postgres" {
		return processor{postmaster: f[2]}
	}
	return processor{}
}

// procStat is /proc/<pid>/stat from the command on: command, state, parent, ….
func procStat(pid string) []string {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b), "(")
	name, rest, ok := strings.Cut(rest, ") ")
	if !ok {
		return nil
	}
	f := append([]string{name}, strings.Fields(rest)...)
	if len(f) < 16 {
		return nil
	}
	return f
}

// used is the CPU time so far.
func (p processor) used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	sum := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if p.postmaster == "" {
		return sum
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid := filepath.Base(d)
		f := procStat(pid)
		switch {
		case f == nil:
		case pid == p.postmaster: // with those of its children that have ended
			sum += ticks(f[12:16])
		case f[2] == p.postmaster:
			sum += ticks(f[12:14])
		}
	}
	return sum
}

func ticks(fields []string) (d time.Duration) {
	for _, f := range fields {
		n, _ := strconv.Atoi(f)
		d += time.Duration(n) * tick
	}
	return d
}
