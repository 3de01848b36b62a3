package access

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
)

// sessions are the browsers that have signed in, in memory alone: they end with
// the process. Kept is a hash of what the browser holds. Safe for concurrent use.
type sessions struct {
	life, idle time.Duration
	most, each int // in all, and of one token
	random     io.Reader

	mu  sync.Mutex
	all map[events.Hash]*session
}

type session struct {
	token      events.Hash
	until, end time.Time // end is until it is used again, until whatever happens
}

func newSessions(o Options) *sessions {
	return &sessions{life: o.SessionLife, idle: o.SessionIdle, most: o.MaxSessions, each: max(o.MaxSessions/10, 1), random: o.Random, all: map[events.Hash]*session{}}
}

// begin makes a session of a token, good until whichever comes first, and
// returns what the browser keeps. An id is never taken from a browser.
func (s *sessions) begin(t Token, now time.Time) (id string, until time.Time, err error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(s.random, b); err != nil {
		return "", until, fmt.Errorf("make a session: %w", err)
	}
	id = base64.RawURLEncoding.EncodeToString(b)
	until = now.Add(s.life)
	if t.Expires.Before(until) {
		until = t.Expires
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room(t.Hash, now)
	s.all[sha256.Sum256([]byte(id))] = &session{token: t.Hash, until: until, end: earlier(until, now.Add(s.idle))}
	return id, until, nil
}

// room leaves room for one more session of a token: what is over goes first,
// then what was used longest ago, of this token if it has its share.
func (s *sessions) room(token events.Hash, now time.Time) {
	var own int
	var oldest, oldestOwn events.Hash
	for k, e := range s.all {
		if !now.Before(e.end) {
			delete(s.all, k)
			continue
		}
		if o, ok := s.all[oldest]; !ok || e.end.Before(o.end) {
			oldest = k
		}
		if e.token == token {
			own++
			if o, ok := s.all[oldestOwn]; !ok || e.end.Before(o.end) {
				oldestOwn = k
			}
		}
	}
	switch {
	case own >= s.each:
		delete(s.all, oldestOwn)
	case len(s.all) >= s.most:
		delete(s.all, oldest)
	}
}

// use returns the token of a session that is not over, which lasts on for it.
func (s *sessions) use(id string, now time.Time) (events.Hash, bool) {
	k := events.Hash(sha256.Sum256([]byte(id)))
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.all[k]
	if !ok {
		return events.Hash{}, false
	}
	if !now.Before(e.end) {
		delete(s.all, k)
		return events.Hash{}, false
	}
	e.end = earlier(e.until, now.Add(s.idle))
	return e.token, true
}

// drop ends a session.
func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}

// dropToken ends all sessions of a token that is good no more.
func (s *sessions) dropToken(h events.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.all {
		if e.token == h {
			delete(s.all, k)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
