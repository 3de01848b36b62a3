package system

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/ledger"
)

// Away says which server an error of [Open], [OpenLedger], [Migrate] or [Waker]
// means: one that cannot be reached now, so that the same call may succeed
// later. It is "" for every other error, also for a server that answered and
// refused: a wrong password does not get better by waiting.
func Away(err error) (server string) {
	var answer interface{ SQLState() string }
	var dial *net.OpError
	var name *net.DNSError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &answer) && !passing(answer.SQLState()):
		return ""
	case errors.Is(err, ledger.ErrUnavailable):
		return "PostgreSQL"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return ""
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &dial), errors.As(err, &name):
		return "NATS"
	default:
		return ""
	}
}

// passing are the SQL states of a server that is starting, stopping or full.
func passing(state string) bool {
	class := state[:min(2, len(state))]
	return class == "08" || class == "53" || class == "57"
}

// Place is where a server's URL or PostgreSQL connection string leads, for
// people: neither user nor password, nor anything else that could be a secret.
func Place(where string) string {
	if !strings.Contains(where, "://") {
		pairs := map[string]string{"host": "localhost", "port": "5432"}
		for _, word := range strings.Fields(where) {
			if k, v, ok := strings.Cut(word, "="); ok {
				pairs[k] = v
			}
		}
		return fmt.Sprintf("%s:%s/%s", pairs["host"], pairs["port"], pairs["dbname"])
	}
	var places []string
	for _, one := range strings.Split(where, ",") { // NATS takes several URLs
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return "the place given"
		}
		places = append(places, u.Host+strings.TrimSuffix(u.Path, "/"))
	}
	return strings.Join(places, ",")
}
