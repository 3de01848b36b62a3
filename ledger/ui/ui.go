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
)

// ErrOptions: the options do not fit together; the text says how.
var ErrOptions = errors.New("wrong options for the page")

// Options say what the page shows, and to whom.
type Options struct {
	// Store is the ledger. Required. The page never closes it.
	Store ledger.Store
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
	return p.secured(p.routes()), nil
}

func (p *page) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.Base+"/runs", http.StatusSeeOther)
	})
	m.HandleFunc("GET /assets/{name}", p.asset)
	m.HandleFunc("GET /theme/{theme}", p.theme)
	m.Handle("GET /runs", p.shows(p.runs))
	m.Handle("GET /runs/{run}", p.shows(p.run))
	m.Handle("/", p.shows(func(context.Context, *http.Request, chrome) (shown, error) {
		return shown{}, errNoPage
	}))
	return m
}
