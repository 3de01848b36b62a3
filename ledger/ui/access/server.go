package access

import (
	"log/slog"
	"net/http"
	"time"
)

// Server is a server of a handler that [Guard.Wrap] made, with limits on how long
// and how much a client may talk. A handler that answers for longer than a minute
// moves its deadline on with http.ResponseController.
func (g *Guard) Server(h http.Handler) *http.Server {
	return &http.Server{
		Addr: g.o.Listen, Handler: h,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(g.o.Logger.Handler(), slog.LevelDebug),
	}
}
