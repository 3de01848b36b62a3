package torture

import (
	"context"
	"slices"
	"time"
)

// calm is a while in which nothing is done to the plant but one thing: what
// was broken before catches up, then the lag is that of a healthy system, and
// then a worker is killed so that takeovers can be timed with nothing else
// going on.
type calm struct {
	from   time.Time // the last fault before
	steady time.Time // by now it should have caught up
	kill   time.Time // of one worker
}

const (
	calmCatchUp = 8 * time.Second // from the last fault until the lag should be that of a healthy system
	calmSteady  = 6 * time.Second // for which it is then measured
	calmRest    = 4 * time.Second // beyond the lease of who was killed
	shortest    = 50 * time.Second
)

// calmEvery is how often there is one in a torture of such a length: none in a
// short one, which has better things to do.
func calmEvery(length time.Duration) time.Duration {
	if length < shortest {
		return 0
	}
	return min(length/2, 2*time.Minute)
}

// calm keeps still, kills one worker, and keeps still until its runs have new
// holders.
func (c *chaos) calm(ctx context.Context) {
	c.say("calm")
	now := calm{from: time.Now()}
	if !sleep(ctx, calmCatchUp) {
		return
	}
	now.steady = time.Now()
	if !sleep(ctx, calmSteady) {
		return
	}
	now.kill = time.Now()
	c.plant.mu.Lock()
	c.plant.calms = append(c.plant.calms, now)
	c.plant.mu.Unlock()
	if len(c.only) > 0 && !slices.Contains(c.only, "kill worker") {
		return
	}
	c.say("kill worker")
	c.plant.strike()
	_ = c.killWorker(ctx) // it returns no error
	sleep(ctx, c.plant.ttl+calmRest)
}

// strike notes that something is done to the plant.
func (p *plant) strike() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.struck = append(p.struck, time.Now())
}

// figures are what the feed showed.
func (t *torture) figures(r *Report) {
	r.LagP50, r.LagP99, r.CalmLagP50, r.CalmLagP99, r.CaughtUpP50, r.CaughtUpMax = -1, -1, -1, -1, -1, -1
	if t.feed == nil {
		return
	}
	all := t.feed.lags(time.Time{}, time.Time{})
	r.LagP50, r.LagP99 = quantile(all, 0.5), quantile(all, 0.99)
	t.plant.mu.Lock()
	calms := slices.Clone(t.plant.calms)
	t.plant.mu.Unlock()
	var lags, caught []time.Duration
	for _, c := range calms {
		lags = append(lags, t.feed.lags(c.steady, c.kill)...)
		caught = append(caught, t.feed.caughtUp(c.from, c.kill))
	}
	r.CalmLagP50, r.CalmLagP99 = quantile(lags, 0.5), quantile(lags, 0.99)
	r.CaughtUpP50, r.CaughtUpMax = quantile(caught, 0.5), quantile(caught, 1)
}
