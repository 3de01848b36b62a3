package torture

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/internal/testenv/powercut"
)

// power is the supply of both servers' disks.
type power struct {
	dir            string
	postgres, nats *powercut.Disk
}

// diskMegabytes is what a disk could hold; it takes what is written.
const diskMegabytes = 8 << 10

func newPower() (_ *power, err error) {
	p := &power{}
	if p.dir, err = os.MkdirTemp("", "daybook-disks-"); err != nil {
		return nil, err
	}
	// PostgreSQL runs as somebody else and has to get there.
	if err := os.Chmod(p.dir, 0o711); err != nil {
		return nil, err
	}
	if p.postgres, err = powercut.New(p.dir, "postgres", diskMegabytes); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if p.nats, err = powercut.New(p.dir, "nats", diskMegabytes); err != nil {
		return nil, errors.Join(err, p.postgres.Close(), os.RemoveAll(p.dir))
	}
	return p, nil
}

func (p *power) sync() error { return errors.Join(p.postgres.Sync(), p.nats.Sync()) }

func (p *power) close() error {
	return errors.Join(p.postgres.Close(), p.nats.Close(), os.RemoveAll(p.dir))
}

// cutPower takes the power from one server, or from both at once as when a
// machine goes down.
func (c *chaos) cutPower(ctx context.Context) error {
	pl := c.plant
	if pl.power == nil {
		return nil
	}
	which := c.rand.IntN(3) // 0: PostgreSQL, 1: NATS, 2: both
	c.count(func(f *Faults) { f.PowerCuts++ })
	if which != 0 {
		pl.nats.signal(syscall.SIGSTOP)
		if err := pl.power.nats.Cut(); err != nil {
			return err
		}
	}
	if which != 1 {
		if err := pl.pg.Crash(pl.power.postgres.Cut, pl.power.postgres.Mend); err != nil {
			return err
		}
	}
	if which != 0 {
		pl.nats.kill()
		if err := pl.power.nats.Mend(); err != nil {
			return err
		}
	}
	sleep(ctx, c.upTo(2*time.Second))
	if which != 1 {
		if err := pl.pg.Start(); err != nil {
			return err
		}
	}
	if which != 0 {
		return pl.restartNATS()
	}
	return nil
}
