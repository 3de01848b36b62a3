package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/ledger"
)

type sqlError string

func (e sqlError) Error() string    { return string(e) }
func (e sqlError) SQLState() string { return string(e) }

func TestAway(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no error", nil, ""},
		{"any error", errors.New("x"), ""},
		{"no such file", &fs.PathError{Op: "stat", Path: "x", Err: syscall.ENOENT}, ""},
		{"nobody listens", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "NATS"},
		{"the database is away", fmt.Errorf("check: %w", ledger.ErrUnavailable), "PostgreSQL"},
		{"the database is starting", fmt.Errorf("%w: %w", ledger.ErrUnavailable, sqlError("57P03")), "PostgreSQL"},
		{"too many connections", fmt.Errorf("%w: %w", ledger.ErrUnavailable, sqlError("53300")), "PostgreSQL"},
		{"a wrong password", fmt.Errorf("%w: %w", ledger.ErrUnavailable, sqlError("28P01")), ""},
		{"no such database", fmt.Errorf("%w: %w", ledger.ErrUnavailable, sqlError("3D000")), ""},
		{"an answer without a state", fmt.Errorf("%w: %w", ledger.ErrUnavailable, sqlError("")), ""},
		{"an old schema", ledger.ErrSchema, ""},
		{"no NATS", fmt.Errorf("connect: %w", nats.ErrNoServers), "NATS"},
		{"NATS does not answer", context.DeadlineExceeded, "NATS"},
		{"NATS refuses", nats.ErrAuthorization, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Away(tt.err); got != tt.want {
				t.Errorf("Away(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

func TestPlaceShowsNoSecret(t *testing.T) {
	tests := []struct{ where, want string }{
		{"postgres://me:hunter2@db:5432/daybook?sslpassword=hunter2", "db:5432/daybook"},
		{"host=db password=hunter2 dbname=daybook", "db:5432/daybook"},
		{"nats://me:hunter2@a:4222", "a:4222"},
		{"nats://a:1,nats://hunter2@b:2", "a:1,b:2"},
		{"nats://me:hunter2@a:port", "the place given"},
	}
	for _, tt := range tests {
		if got := Place(tt.where); got != tt.want {
			t.Errorf("Place(%q) = %q, want %q", tt.where, got, tt.want)
		}
	}
}
