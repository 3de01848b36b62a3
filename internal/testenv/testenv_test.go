package testenv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustExec(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	if err := execSQL(context.Background(), dsn, statements...); err != nil {
		t.Fatal(err)
	}
}

func execSQL(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func TestPostgresGivesEachTestItsOwn(t *testing.T) {
	for _, name := range []string{"one", "another"} {
		t.Run(name, func(t *testing.T) {
			mustExec(t, Postgres(t), "CREATE TABLE mine (n int)")
		})
	}
}

func TestPostgresIsDroppedWhileStillConnected(t *testing.T) {
	var dsn string
	t.Run("a test that forgets to close", func(t *testing.T) {
		dsn = Postgres(t)
		conn, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn // open until the process ends
	})
	if err := execSQL(t.Context(), dsn, "SELECT 1"); err == nil {
		t.Error("the database is still there")
	}
}

func TestMigratedPostgresMigratesOnce(t *testing.T) {
	var migrations atomic.Int32
	migrate := func(dsn string) error {
		migrations.Add(1)
		return execSQL(context.Background(), dsn, "CREATE TABLE rows (n int)", "INSERT INTO rows VALUES (7)")
	}
	key := fmt.Sprint("test ", time.Now().UnixNano())
	for _, k := range []string{key, key + "'"} { // the server may outlive this run
		t.Cleanup(func() { mustExec(t, sharedDSN(t), "DROP DATABASE IF EXISTS daybook_template_"+digest(k)) })
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			dsn := MigratedPostgres(t, key, migrate)
			if err := execSQL(context.Background(), dsn, "DELETE FROM rows WHERE n = 7", "INSERT INTO rows VALUES (1)"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := migrations.Load(); n != 1 {
		t.Errorf("migrated %d times", n)
	}
	const n = 10
	begin := time.Now()
	for range n {
		MigratedPostgres(t, key, migrate)
	}
	t.Logf("%v a database", time.Since(begin)/n)
	t.Run("another key, another schema", func(t *testing.T) {
		dsn := MigratedPostgres(t, key+"'", func(string) error { return nil })
		if err := execSQL(t.Context(), dsn, "SELECT FROM rows"); err == nil {
			t.Error("the first schema is in it")
		}
	})
}

func TestFailedMigrationIsTriedAgain(t *testing.T) {
	conn := adminConn(t)
	defer conn.Close(t.Context())
	name := "daybook_template_" + digest(fmt.Sprint(time.Now().UnixNano()))
	if err := ensureTemplate(conn, name, func(string) error { return context.Canceled }); err == nil {
		t.Error("no error")
	}
	if err := ensureTemplate(conn, name, func(string) error { return nil }); err != nil {
		t.Error(err)
	}
	mustExec(t, sharedDSN(t), "DROP DATABASE "+name)
}

func TestWithDatabase(t *testing.T) {
	tests := []struct{ dsn, want string }{
		{"postgres://u:p@h:1/a?sslmode=disable", "postgres://u:p@h:1/b?sslmode=disable"},
		{"postgresql://h", "postgresql://h/b"},
		{"host=h dbname=a", "host=h dbname=a dbname=b"},
	}
	for _, tt := range tests {
		got, err := withDatabase(tt.dsn, "b")
		if err != nil || got != tt.want {
			t.Errorf("withDatabase(%q) = %q, %v, want %q", tt.dsn, got, err, tt.want)
		}
		if cfg, err := pgx.ParseConfig(got); err != nil || cfg.Database != "b" {
			t.Errorf("%q: database %q, %v", got, cfg.Database, err)
		}
	}
}

func TestStartPostgres(t *testing.T) {
	p := StartPostgres(t)
	dsn := p.DSN("postgres")
	mustExec(t, dsn, "CREATE TABLE kept (n int)")
	p.Kill()
	if err := execSQL(t.Context(), dsn, "SELECT 1"); err == nil {
		t.Error("killed, but answers")
	}
	p.Start()
	mustExec(t, dsn, "SELECT n FROM kept")
	p.Stop(pgserver.Fast)
	p.Start()
	mustExec(t, dsn, "SELECT n FROM kept")
}

// A broker is what the two kinds of NATS server have in common.
type broker interface {
	URL() string
	Start()
	Stop()
}

func TestNATSKeepsItsStoreAndAddress(t *testing.T) {
	tests := []struct {
		name string
		open func(t *testing.T) (b broker, end func())
	}{
		{"in this process", func(t *testing.T) (broker, func()) { s := NATS(t); return s, s.Stop }},
		{"in a process that is stopped", func(t *testing.T) (broker, func()) { p := StartNATSProcess(t); return p, p.Stop }},
		{"in a process that is killed", func(t *testing.T) (broker, func()) { p := StartNATSProcess(t); return p, p.Kill }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, end := tt.open(t)
			url := b.URL()
			js, closeConn := dial(t, url)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if _, err := js.Publish(t.Context(), "s", []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			closeConn()
			end()
			if nc, err := nats.Connect(url); err == nil {
				nc.Close()
				t.Error("ended, but answers")
			}
			b.Start()
			if b.URL() != url {
				t.Errorf("URL = %s after the restart, want %s", b.URL(), url)
			}
			js, closeConn = dial(t, url)
			defer closeConn()
			stream, err := js.Stream(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			if n := stream.CachedInfo().State.Msgs; n != 20 {
				t.Errorf("%d messages of 20", n)
			}
		})
	}
}

func dial(t *testing.T, url string) (jetstream.JetStream, func()) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}
