package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// one runs one worker process to its end. An exit code other than 0 means that
// it was killed.
func (s *supervisor) one(ctx context.Context, n int) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	logFile, err := os.OpenFile(filepath.Join(s.flags.dataDir, "workers.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer logFile.Close()
	c := exec.CommandContext(ctx, self, s.childArgs()...)
	c.Stdout, c.Stderr = logFile, logFile
	c.Env = s.childEnv()
	// Ctrl-C is for the supervisor. It ends the worker, as its own end does: the
	// worker sees its standard input end.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	hold, err := c.StdinPipe()
	if err != nil {
		return 0, err
	}
	defer hold.Close()
	dead := make(chan struct{})
	s.mu.Lock()
	err = c.Start()
	if err == nil {
		s.child, s.dead, s.killed = c.Process, dead, false
	}
	s.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("start worker: %w", err)
	}
	fmt.Fprintf(s.app.err, "worker %d started (process %d)\n", n, c.Process.Pid)
	err = c.Wait()
	close(dead)
	s.mu.Lock()
	killed := s.killed
	s.child = nil
	s.mu.Unlock()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case killed, ctx.Err() != nil:
		return 137, nil
	case errors.As(err, &exit):
		return 0, fmt.Errorf("worker ended by itself: %w; its last words are in %s", err, logFile.Name())
	default:
		return 0, err
	}
}

func (s *supervisor) childArgs() []string {
	o := s.app.opts
	args := []string{
		"demo-child", "--requests", s.file, "--tenant", s.tenant, "--payments", s.pay.URL(),
		"--payments-recovery", s.flags.recovery, "--payments-timeout", "2s", "--grace", "100ms",
		"--concurrency", "4", "--lease-ttl", "2s", "--sweep", "100ms", "--log-level", s.app.logLevel,
	}
	if s.flags.model != "" {
		args = append(args, "--model", s.flags.model)
	}
	if s.flags.modelConfig != "" {
		args = append(args, "--model-config", s.flags.modelConfig)
	}
	for _, pair := range s.app.secrets {
		args = append(args, "--secret", pair)
	}
	if o.Embedded() {
		return append(args, "--dir", s.flags.dataDir)
	}
	return args
}

// childEnv hands the URLs over where other users' ps does not show them.
func (s *supervisor) childEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DAYBOOK_") && !strings.HasPrefix(v, "DAYBOOK_FAULT") })
	if o := s.app.opts; !o.Embedded() {
		env = append(env, "DAYBOOK_NATS_URL="+o.NATS, "DAYBOOK_POSTGRES_URL="+o.Postgres, "DAYBOOK_NATS_SYNC="+o.Sync)
	}
	return env
}
