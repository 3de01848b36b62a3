package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

// ErrOptions: the options do not fit together; the text says how.
var ErrOptions = errors.New("wrong options for the page")

// Options say what the page shows, and to whom.
type Options struct {
	// Store is the ledger. Required. The page never closes it.
	Store ledger.Store
	// Guard stands in front of every page and says who asks. Without one, whoever
	// embeds the page puts the principal into the context ([access.With]): who is
	// nobody sees nothing, and nothing can be done, only read.
	Guard *access.Guard
	// Redactor redacts what people write who do something; nil = [redact.New] with its defaults.
	Redactor *redact.Redactor
	// Base is the path below which the page is mounted, such as "/daybook"; empty is
	// the root. Whoever mounts it there strips the prefix ([http.StripPrefix]).
	Base string
	// Now is the clock that ages are counted on; nil = [time.Now].
	Now func() time.Time
	// Refresh is how often what is under way is looked at again. Zero means 4 seconds;
	// negative means never.
	Refresh time.Duration
	// Timeout bounds one answer, the queries of the database included. Zero means 15 seconds.
	Timeout time.Duration
	// Grace is what comes after an attempt's deadline until nobody can act for it any
	// more, as the workers have it. Zero means 30 seconds.
	Grace time.Duration
	// Logger gets what could not be shown, and why; nil = [slog.Default].
	Logger *slog.Logger
}

// page is the handler with what its routes share. Safe for concurrent use.
type page struct {
	Options
	files files
	acts  *access.Acts // nil: nothing can be done
}

// New returns the page. Errors: [ErrOptions].
func New(o Options) (http.Handler, error) {
	if o.Store == nil {
		return nil, fmt.Errorf("%w: no store", ErrOptions)
	}
	if o.Base != "" && (!strings.HasPrefix(o.Base, "/") || strings.HasSuffix(o.Base, "/") || strings.ContainsAny(o.Base, "?#\\\"<> ")) {
		return nil, fmt.Errorf("%w: base %q: want a path such as /daybook", ErrOptions, o.Base)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Refresh == 0 {
		o.Refresh = 4 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &page{Options: o}
	var err error
	if p.files, err = readFiles(); err != nil {
		return nil, err
	}
	h := p.secured(p.routes())
	if o.Guard == nil {
		return h, nil
	}
	if o.Redactor == nil {
		o.Redactor = redact.New(redact.Config{})
	}
	p.acts = o.Guard.Acts(o.Store, o.Redactor)
	return o.Guard.Wrap(h), nil
}

func (p *page) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.Base+"/runs", http.StatusSeeOther)
	})
	m.HandleFunc("GET /assets/{name}", p.asset)
	m.HandleFunc("GET /theme/{theme}", p.theme)
	for path, gather := range map[string]gather{
		"/runs": p.runs, "/runs/{run}": p.run, "/runs/{run}/transcript": p.transcript, "/runs/{run}/cost": p.runCost,
		"/runs/{run}/artifacts": p.artifacts, "/runs/{run}/tree": p.tree, "/runs/{run}/events": p.events, "/runs/{run}/events/{seq}": p.event,
		"/runs/{run}/calls/{call}": p.call, "/runs/{run}/record": p.runRecord,
		"/inbox": p.inbox, "/costs": p.costs, "/queues": p.queues, "/record": p.record,
	} {
		m.Handle("GET "+path, p.shows(gather))
	}
	m.Handle("POST /approvals/{approval}", p.shows(p.decide))
	m.Handle("POST /effects/{effect}", p.shows(p.resolve))
	m.Handle("POST /runs/{run}/cancel", p.shows(p.cancel))
	m.Handle("/", p.shows(func(context.Context, *http.Request, *chrome) (shown, error) {
		return shown{}, errNoPage
	}))
	return m
}
