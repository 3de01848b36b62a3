package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

// A server is one that answers at url until it is closed.
type server struct {
	url   string
	close func() error
}

// errNotHere is a source's answer where it cannot have a server, with the reason.
var errNotHere = errors.New("not here")

// A finder is how a server is wanted.
type finder struct {
	disk   bool      // local binaries keep their data on disk, not in memory
	stderr io.Writer // of the programs it runs
}

// find asks the sources in turn. One that should have worked and failed is an
// error; one that is not there leads to the next.
func (f finder) find(ctx context.Context) (server, error) {
	sources := []struct {
		name string
		open func(context.Context) (server, error)
	}{
		{urlVariable, f.fromEnvironment},
		{"local binaries", f.fromBinaries},
		{"docker compose", f.fromCompose},
		{"apt-get", f.fromPackage},
	}
	var reasons []string
	for _, source := range sources {
		s, err := source.open(ctx)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errNotHere) {
			return server{}, fmt.Errorf("%s: %w", source.name, err)
		}
		reasons = append(reasons, fmt.Sprintf("  %s: %v", source.name, err))
	}
	return server{}, fmt.Errorf("no PostgreSQL server to be had; install version 15 or later, or set %s\n%s",
		urlVariable, strings.Join(reasons, "\n"))
}

func (f finder) fromEnvironment(context.Context) (server, error) {
	url := os.Getenv(urlVariable)
	if url == "" {
		return server{}, fmt.Errorf("%w: it is not set", errNotHere)
	}
	return server{url: url, close: func() error { return nil }}, nil
}

func (f finder) fromBinaries(context.Context) (server, error) {
	s, err := pgserver.Start(pgserver.Config{InMemory: !f.disk})
	if errors.Is(err, pgserver.ErrNoBinaries) {
		return server{}, fmt.Errorf("%w: %w", errNotHere, err)
	}
	if err != nil {
		return server{}, err
	}
	return server{url: s.DSN("postgres"), close: s.Close}, nil
}

// fromCompose starts the postgres service of docker-compose.yml as a project of
// its own, on a free port.
func (f finder) fromCompose(ctx context.Context) (server, error) {
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := exec.CommandContext(ask, "docker", "info").Run(); err != nil {
		return server{}, fmt.Errorf("%w: no docker engine answers", errNotHere)
	}
	compose := func(ctx context.Context, args ...string) *exec.Cmd {
		project := fmt.Sprintf("daybook-test-%d", os.Getpid())
		cmd := exec.CommandContext(ctx, "docker", append([]string{"compose", "--project-name", project}, args...)...)
		cmd.Env = append(os.Environ(), "DAYBOOK_POSTGRES_PORT=0", "DAYBOOK_POSTGRES_PASSWORD=daybook")
		cmd.Stderr = f.stderr
		return cmd
	}
	down := func() error {
		return compose(context.Background(), "down", "--volumes", "--timeout", "1").Run()
	}
	if err := compose(ctx, "up", "--detach", "--wait", "postgres").Run(); err != nil {
		return server{}, errors.Join(err, down())
	}
	address, err := compose(ctx, "port", "postgres", "5432").Output()
	if err != nil {
		return server{}, errors.Join(err, down())
	}
	url := "postgres://daybook:daybook@" + strings.TrimSpace(string(address)) + "/postgres?sslmode=disable"
	return server{url: url, close: down}, nil
}

func (f finder) fromPackage(ctx context.Context) (server, error) {
	if os.Getuid() != 0 {
		return server{}, fmt.Errorf("%w: only root may install packages", errNotHere)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return server{}, fmt.Errorf("%w: there is none", errNotHere)
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "postgresql"}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = f.stderr, f.stderr
		if err := cmd.Run(); err != nil {
			return server{}, fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err)
		}
	}
	return f.fromBinaries(ctx)
}
