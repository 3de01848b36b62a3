package testenv

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

const howToGetPostgres = `set DAYBOOK_TEST_POSTGRES_URL, or install a server (Debian: apt-get install postgresql)`

// Postgres returns the URL of a fresh, empty database, which is dropped when the
// test ends. It is on the server that DAYBOOK_TEST_POSTGRES_URL names (as a user
// who may create databases), else on one that this process starts and shares
// among its tests.
func Postgres(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

// MigratedPostgres is like [Postgres] with the schema in it that migrate made.
// It is made once and copied from then on, in this process and all others that
// share the server: key must change whenever the outcome of migrate would, so
// make it a hash over the migrations. migrate may leave no connection open.
func MigratedPostgres(t testing.TB, key string, migrate func(dsn string) error) string {
	t.Helper()
	template := "daybook_template_" + digest(key)
	conn := adminConn(t)
	defer conn.Close(context.Background())
	if err := ensureTemplate(conn, template, migrate); err != nil {
		t.Fatalf("template database: %v", err)
	}
	return create(t, template)
}

// A server is where the databases are made, and what keeps it alive.
type server struct {
	dsn string
	own *pgserver.Server // nil if it is another's; never closed, see pgserver
}

// shared starts the process's server once, when the first test asks for it. It
// ends when the process does.
var shared = sync.OnceValues(func() (server, error) {
	if dsn := os.Getenv("DAYBOOK_TEST_POSTGRES_URL"); dsn != "" {
		return server{dsn: dsn}, nil
	}
	own, err := pgserver.Start(pgserver.Config{InMemory: true})
	if errors.Is(err, pgserver.ErrNoBinaries) {
		return server{}, fmt.Errorf("%w: %s", err, howToGetPostgres)
	}
	if err != nil {
		return server{}, err
	}
	return server{dsn: own.DSN("postgres"), own: own}, nil
})

func sharedDSN(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	return s.dsn
}

// adminConn connects to the shared server. A pool would leave goroutines behind.
func adminConn(t testing.TB) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(sharedDSN(t))
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	// CREATE DATABASE and its like stand alone: nothing to prepare.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(context.Background(), cfg)
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v; %s", err, howToGetPostgres)
	}
	return conn
}

// create makes a database, a copy of template unless that is "", and drops it
// when the test ends.
func create(t testing.TB, template string) string {
	t.Helper()
	ctx := context.Background()
	name := "daybook_test_" + strings.ToLower(rand.Text())
	if template == "" {
		template = "template1"
	}
	// Copying files is three times as fast as copying through the log, in memory.
	sql := "CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY"
	conn := adminConn(t)
	_, err := conn.Exec(ctx, sql)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() {
		conn := adminConn(t)
		_, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		if err = errors.Join(err, conn.Close(ctx)); err != nil {
			t.Errorf("drop a database: %v", err)
		}
	})
	return databaseDSN(t, sharedDSN(t), name)
}

// ensureTemplate makes the template database unless it is there. It appears
// under its name only once it is complete.
func ensureTemplate(conn *pgx.Conn, name string, migrate func(dsn string) error) (err error) {
	ctx := context.Background()
	if ok, err := exists(conn, name); ok || err != nil {
		return err
	}
	// All processes that share the server agree on one builder at a time. The
	// lock goes with the connection, should this process die.
	const lock = "hashtext('daybook testenv template')"
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock("+lock+")"); err != nil {
		return err
	}
	defer func() {
		_, uerr := conn.Exec(ctx, "SELECT pg_advisory_unlock("+lock+")")
		err = errors.Join(err, uerr)
	}()
	if ok, err := exists(conn, name); ok || err != nil {
		return err
	}
	building := name + "_building"
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + building + " WITH (FORCE)", // a dead builder's
		"CREATE DATABASE " + building,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	dsn, err := withDatabase(conn.Config().ConnString(), building)
	if err != nil {
		return err
	}
	if err := migrate(dsn); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return publish(conn, building, name)
}

// publish renames a database. A closed connection's server process may need a
// moment to go, and while it is there the name is held.
func publish(conn *pgx.Conn, from, to string) error {
	ctx := context.Background()
	deadline := time.Now().Add(time.Minute)
	for {
		var open int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", from).Scan(&open)
		if err != nil {
			return err
		}
		if open == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("migrate left %d connections open", open)
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, err := conn.Exec(ctx, "ALTER DATABASE "+from+" RENAME TO "+to)
	return err
}

func exists(conn *pgx.Conn, database string) (ok bool, err error) {
	err = conn.QueryRow(context.Background(),
		"SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&ok)
	return ok, err
}

func databaseDSN(t testing.TB, dsn, database string) string {
	t.Helper()
	dsn, err := withDatabase(dsn, database)
	if err != nil {
		t.Fatalf("DAYBOOK_TEST_POSTGRES_URL: %v", err)
	}
	return dsn
}

// withDatabase puts another database into a URL or a "key=value" string.
func withDatabase(dsn, database string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + database, nil // the last of its kind wins
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Path = "/" + database
	return u.String(), nil
}

func digest(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:8])
}
