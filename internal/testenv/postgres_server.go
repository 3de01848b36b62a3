package testenv

import (
	"testing"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

// A PostgresServer is a PostgreSQL server that one test has to itself, to stop
// and kill. Its methods fail the test on errors and may not be called
// concurrently, except DSN.
type PostgresServer struct {
	t      testing.TB
	server *pgserver.Server
}

// StartPostgres starts a PostgreSQL server from local binaries, which ends with
// the test. It takes about a second: [Postgres] is for tests that only need a
// database.
func StartPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	return StartPostgresWith(t, pgserver.Config{})
}

// StartPostgresWith is StartPostgres for a server with a configuration of its
// own, such as where its data is.
func StartPostgresWith(t testing.TB, cfg pgserver.Config) *PostgresServer {
	t.Helper()
	s, err := pgserver.Start(cfg)
	if err != nil {
		t.Fatalf("%v; install a server (Debian: apt-get install postgresql)", err)
	}
	p := &PostgresServer{t: t, server: s}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("server log:\n%s", s.Log())
		}
		p.check(s.Close())
	})
	return p
}

// DSN is the URL of a database of the server; "postgres" always exists. It stays
// the same over restarts.
func (p *PostgresServer) DSN(database string) string { return p.server.DSN(database) }

// Stop stops the server and returns when it has ended.
func (p *PostgresServer) Stop(mode pgserver.StopMode) {
	p.t.Helper()
	p.check(p.server.Stop(mode))
}

// Kill sends SIGKILL to all processes of the server and returns when they are
// dead.
func (p *PostgresServer) Kill() {
	p.t.Helper()
	p.check(p.server.Kill())
}

// Start starts the server again on its data and port, and returns when it takes
// connections.
func (p *PostgresServer) Start() {
	p.t.Helper()
	p.check(p.server.Start())
}

// Running says whether the server's main process exists: a server that ran out
// of disk ends by itself.
func (p *PostgresServer) Running() bool { return p.server.Running() }

// Log is the end of what the server wrote to its log.
func (p *PostgresServer) Log() string { return p.server.Log() }

func (p *PostgresServer) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}
