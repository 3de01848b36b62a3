package embedded

import (
	"fmt"
	"log/slog"
	"sync"
)

// A logger passes on what the server says and keeps the first fatal message:
// nats-server reports a failed start there and nowhere else.
type logger struct {
	out *slog.Logger // nil: silence

	mu    sync.Mutex
	first string
}

func (l *logger) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *logger) Fatalf(format string, v ...any) {
	l.mu.Lock()
	if l.first == "" {
		l.first = fmt.Sprintf(format, v...)
	}
	l.mu.Unlock()
	l.Errorf(format, v...)
}

func (l *logger) Errorf(format string, v ...any) {
	if l.out != nil {
		l.out.Error(fmt.Sprintf(format, v...))
	}
}

func (l *logger) Warnf(format string, v ...any) {
	if l.out != nil {
		l.out.Warn(fmt.Sprintf(format, v...))
	}
}

func (l *logger) Noticef(format string, v ...any) {
	if l.out != nil {
		l.out.Info(fmt.Sprintf(format, v...))
	}
}

func (l *logger) Debugf(format string, v ...any) {
	if l.out != nil {
		l.out.Debug(fmt.Sprintf(format, v...))
	}
}

func (l *logger) Tracef(format string, v ...any) { l.Debugf(format, v...) }
