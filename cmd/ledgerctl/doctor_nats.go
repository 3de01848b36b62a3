package main

import (
	"context"
	"strings"
	"time"

	"github.com/daybookhq/daybook/runtime/system"
)

// How far a clock may be from ours.
const (
	skewWarning = 2 * time.Second
	skewFailed  = 30 * time.Second
)

// clock compares a server's clock with ours, which was read around it.
func (d *doctor) clock(check string, theirs, before, after time.Time) {
	skew := time.Duration(0) // as far as is certain
	switch {
	case theirs.Before(before):
		skew = before.Sub(theirs)
	case theirs.After(after):
		skew = theirs.Sub(after)
	}
	status := checkOK
	switch {
	case skew > skewFailed:
		status = checkFailed
	case skew > skewWarning:
		status = checkWarning
	}
	if status == checkOK {
		d.ok(check, "within %s of this machine's", max(skew, after.Sub(before)).Round(time.Millisecond))
		return
	}
	d.bad(status, check, promiseOnce+"; ages and deadlines are wrong, leases are by the database's clock alone",
		"set the clocks by NTP on both machines", "%s away from this machine's clock", skew.Round(time.Millisecond))
}

func (d *doctor) nats(ctx context.Context, o system.Options) {
	if o.NATS == "" {
		d.bad(checkWarning, "nats", promiseMoney, "give --nats URL", "not checked: no URL was given")
		return
	}
	e, err := system.Examine(ctx, o.NATS, d.a.now)
	if err != nil {
		d.bad(checkFailed, "nats", promiseMoney+"; runs wait", "start it, or give its right URL", "NATS at %s cannot be asked: %v", system.Place(o.NATS), d.r.Error(err))
		return
	}
	d.ok("nats", "NATS %s at %s answers", e.ServerVersion, system.Place(o.NATS))
	if e.JetStream != nil {
		d.bad(checkFailed, "nats jetstream", promiseMoney+"; no worker starts", "start nats-server with -js, or jetstream in its configuration; allow it to this account", "JetStream cannot be used: %v", e.JetStream)
		return
	}
	d.ok("nats jetstream", "on")
	if e.SmallPayload {
		d.bad(checkFailed, "nats max_payload", promiseLost, "raise max_payload; its default of 1 MB is enough", "%d bytes: smaller than the journal's messages", e.MaxPayload)
	}
	for _, s := range e.Streams {
		check := "nats " + strings.ToLower(s.Name)
		switch {
		case s.Missing:
			d.bad(checkWarning, check, promiseMoney, "start a worker or a projector: it makes it", "the stream is not there")
			continue
		case s.Frozen != nil:
			d.bad(checkFailed, check, promiseMoney+"; the stream takes nothing", "free space and restart the server", "%v", s.Frozen)
		case len(s.Differs) > 0:
			d.bad(checkWarning, check, promiseMoney, "start a worker: it sets them; find out who changed them", "settings are not ours: %s", strings.Join(s.Differs, "; "))
		case s.InSync < s.Replicas:
			d.bad(checkWarning, check, promiseMoney, "bring the server back that is away", "%d of %d replicas are up to date", s.InSync, s.Replicas)
		default:
			d.ok(check, "%s, %s, %s", plural(int64(s.Replicas), "replica"), plural(int64(s.Messages), "message"), thousands(int64(s.Bytes))+" bytes") //nolint:gosec // counts
		}
	}
	switch o.Sync {
	case "always":
		d.ok("nats sync", "asserted: always")
	default:
		d.bad(checkWarning, "nats sync", promiseMoney, "sync_interval: always in the server's configuration, then --nats-sync always (DAYBOOK_NATS_SYNC)",
			"nobody asserts that the server syncs before it acknowledges; no client can see it: a power cut may lose the last events")
	}
	if !e.ServerTime.IsZero() {
		d.clock("nats clock", e.ServerTime, e.Asked, e.Answered)
	}
	switch {
	case !e.Projector:
		d.bad(checkWarning, "nats projector", promiseProof, "start runner projector", "its consumer is not there: no projector has run on this server")
	case e.Lag > 1000:
		d.bad(checkWarning, "nats projector", promiseProof, "start runner projector, or another one", "%d messages of the journal are not projected", e.Lag)
	default:
		d.ok("nats projector", "%s not projected yet", plural(int64(e.Lag), "message")) //nolint:gosec // a count
	}
}
