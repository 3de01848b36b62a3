package ui

// lane is one line of the picture of a whole run.
type lane struct {
	name  string
	rects []rect
}

// rect is a stretch of a lane; two that touch and look alike are one, so that a
// picture has no more of them than it is wide.
type rect struct {
	from, to float64
	tone     string
	title    string
}

// overview is the whole run in four lanes.
func (w *waterfall) overview() []lane {
	lanes := []lane{{name: "worker"}, {name: "model"}, {name: "tools"}, {name: "waits"}}
	leases := 0
	for _, a := range w.acts {
		n, tone := 0, string(a.kind)
		switch a.kind {
		case kindLease:
			tone = []string{"leaseA", "leaseB"}[leases%2]
			leases++
		case kindModel:
			n = 1
		case kindTool, kindCheck:
			n = 2
		case kindQueue, kindWait, kindDoubt:
			n = 3
		default:
			continue
		}
		if a.failed {
			tone = "failed"
		}
		from, to := w.scale.pos(a.start), w.scale.pos(a.end)
		lanes[n].put(rect{from, max(to, from+2), tone, plain(a.name) + ", " + took(a.end.Sub(a.start))})
	}
	return lanes
}

func (l *lane) put(r rect) {
	const near = 0.75
	if n := len(l.rects); n > 0 {
		last := &l.rects[n-1]
		if r.tone == last.tone && r.from <= last.to+near && r.tone != "leaseA" && r.tone != "leaseB" {
			last.to = max(last.to, r.to)
			last.title = ""
			return
		}
		if r.to <= last.to+near && n >= width { // nothing more is to be seen there
			return
		}
	}
	r.to = min(r.to, width)
	l.rects = append(l.rects, r)
}
