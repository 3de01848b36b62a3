//go:build unix

// Command review has a script review a change, merge it once a person has approved
// that, watch it for a while and follow up. Its workers are killed at three bad
// moments, and each time the next one goes on where the script stopped. It needs no
// network: the model is scripted; --model NAME --model-config FILE takes a real one.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// deaths are when workers are killed, in turn; the last one lives.
var deaths = []struct{ when, what string }{
	{"approval", "while nobody had approved anything"},
	{"merge", "right after the merge, before anybody had heard of it"},
	{"sleep", "while the script slept"},
	{"", ""},
}

// supervise starts one worker after the other until the run is over.
func supervise(ctx context.Context, self string, args []string, o order, out io.Writer) error {
	if _, err := o.models.Open(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	for _, d := range deaths {
		c := exec.CommandContext(ctx, self, append([]string{"work", "--die", d.when, "--from", strconv.FormatUint(o.from, 10)}, args...)...)
		c.Stderr = os.Stderr
		told, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		fmt.Fprintf(out, "     worker %d started\n", c.Process.Pid)
		for lines := bufio.NewScanner(told); lines.Scan(); {
			fmt.Fprintln(out, lines.Text())
			seq, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
			if n, err := strconv.ParseUint(seq, 10, 64); err == nil {
				o.from = n
			}
		}
		err = c.Wait()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || d.when == "" {
			return fmt.Errorf("worker: %w", err)
		}
		fmt.Fprintf(out, "     worker %d killed: %s\n", c.Process.Pid, d.what)
	}
	merged, err := os.ReadFile(filepath.Join(o.dir, "merged.log"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	fmt.Fprintf(out, "What was done in the repository:\n%s", merged)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := start(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "review:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	working := len(args) > 0 && args[0] == "work"
	if working {
		args = args[1:]
	}
	var o order
	fs := flag.NewFlagSet("review", flag.ExitOnError)
	fs.StringVar(&o.dir, "dir", ".daybook", "where everything is kept")
	fs.DurationVar(&o.watch, "watch", 3*time.Second, "how long a merged change is watched")
	fs.StringVar(&o.die, "die", "", "of a worker: when it is killed")
	fs.Uint64Var(&o.from, "from", 0, "of a worker: the last event that was told")
	o.models.Add(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if working {
		return work(ctx, o, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return supervise(ctx, self, args, o, out)
}
