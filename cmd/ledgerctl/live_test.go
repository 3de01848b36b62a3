package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

// storyteller is a model that goes on with its answer when it is told to.
type storyteller struct{ more chan string }

func (m *storyteller) Call(ctx context.Context, r model.Request) (model.Response, error) {
	return m.Stream(ctx, r, func(model.Delta) {})
}

func (m *storyteller) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	text := ""
	for {
		select {
		case <-ctx.Done():
			return model.Response{}, ctx.Err()
		case s, ok := <-m.more:
			if !ok {
				return model.Response{Model: r.Model, Text: text, StopReason: "end_turn"}, nil
			}
			text += s
			told(model.Delta{Kind: events.BlockText, Text: s})
		}
	}
}

// paper is what was written so far.
type paper struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// screenOf is what stands on a terminal after s: of escapes it knows those that
// move up and clear what is below.
func screenOf(t *testing.T, s string) string {
	t.Helper()
	var lines []string
	for s != "" {
		if strings.HasPrefix(s, "\x1b[") {
			n := 0
			i := 2
			for ; s[i] >= '0' && s[i] <= '9'; i++ {
				n = 10*n + int(s[i]-'0')
			}
			switch s[i] {
			case 'A':
				if !strings.HasPrefix(s[i+1:], "\x1b[J") {
					t.Fatal("the cursor goes up and nothing is cleared")
				}
				lines = lines[:len(lines)-n]
			case 'J', 'm':
			default:
				t.Fatalf("escape %q", s[:i+1])
			}
			s = s[i+1:]
			continue
		}
		line, rest, ok := strings.Cut(s, "\n")
		if !ok {
			t.Fatalf("no line: %q", s)
		}
		lines, s = append(lines, line), rest
	}
	return strings.Join(lines, "\n")
}

// Three people follow a run: on a terminal, in a pipe, and in jsonl. Each sees what
// the model writes before it is recorded, nobody sees the secret, and what is
// recorded takes its place.
func TestTailLive(t *testing.T) {
	dir, m := t.TempDir(), &storyteller{more: make(chan string)}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const canary = "canary correct horse 77"
	sys, err := system.Open(ctx, system.Options{Dir: dir, Secrets: map[string]string{"canary": canary}})
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	agent := &agents.Agent{Name: "teller", Model: "script", Loop: "singleshot", Prompt: "Tell."}
	go func() {
		worked <- sys.Work(work, runtime.Config{Agents: []*agents.Agent{agent}, Models: map[string]model.Model{"script": m}}, true)
	}()
	defer func() {
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
		sys.Close()
	}()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: "teller", Input: "go", ClientKey: "one"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	tail := func(output string, width int) *paper {
		p := new(paper)
		a := newApp(nil, p, p, time.Now)
		a.root()
		a.opts.Dir, a.output, a.term = dir, output, terminal{width: width}
		if err := a.flags.Set("dir", dir); err != nil {
			t.Fatal(err)
		}
		st, _, err := a.open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer st.Close()
			if err := a.tail(ctx, st, r, tailFlags{live: true, every: 20 * time.Millisecond}); err != nil {
				t.Error(err)
			}
		})
		return p
	}
	screen, pipe, lines := tail(formatTable, 60), tail(formatTable, 0), tail(formatJSONL, 0)
	see := func(what string) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for _, p := range []*paper{screen, pipe, lines} {
			for !strings.Contains(p.String(), what) {
				select {
				case <-ctx.Done():
					t.Fatalf("%q is not shown:\n%s", what, p)
				case <-tick.C:
				}
			}
		}
	}
	m.more <- "Once upon a time and once more, "
	see("Once upon")
	m.more <- "long ago \x1b[2J\u202e in a country far away, behind the mountains and the sea, there was a canary corr"
	see("behind the")
	m.more <- "ect horse 77 and more. It goes on. "
	see("[REDACTED:canary:")
	if got := screenOf(t, screen.String()); !strings.Contains(got, "not recorded yet") {
		t.Errorf("the terminal does not say that this is not recorded:\n%s", got)
	}
	close(m.more)
	wg.Wait()
	all := screen.String() + pipe.String() + lines.String()
	for _, secret := range []string{canary, "correct horse", "canary corr"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q was shown", secret)
		}
	}
	final := screenOf(t, screen.String())
	if strings.Contains(final, "not recorded yet") || !strings.Contains(final, "Once upon") || !strings.Contains(final, "run_finished") {
		t.Errorf("in the end the terminal shows:\n%s", final)
	}
	if strings.Contains(pipe.String(), "\x1b") || strings.Contains(pipe.String(), "\u202e") || !strings.Contains(pipe.String(), `\x1b[2J\u202e`) {
		t.Errorf("in the pipe:\n%s", pipe)
	}
	var live, seqs int
	for line := range strings.Lines(lines.String()) {
		var v struct {
			Seq  uint64
			Live *events.Live
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case v.Live != nil:
			live++
		case v.Seq > 0:
			seqs++
		}
	}
	if live < 3 || seqs < 5 {
		t.Errorf("%d live messages and %d events in\n%s", live, seqs, lines)
	}
}

// failsOnce is a storyteller that fails for good when it is asked first.
type failsOnce struct {
	storyteller
	asked atomic.Int64
}

func (m *failsOnce) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	if m.asked.Add(1) == 1 {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: errors.New("no")}
	}
	return m.storyteller.Stream(ctx, r, told)
}

// Who follows a run that fails is shown the one that tries it again, from its first event
// and while it is written.
func TestTailLiveFollowsARetry(t *testing.T) {
	dir, m := t.TempDir(), &failsOnce{storyteller: storyteller{more: make(chan string)}}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	sys, err := system.Open(ctx, system.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	agent := &agents.Agent{Name: "teller", Model: "script", Loop: "singleshot", Prompt: "Tell.", Retry: agents.Retry{MaxAttempts: 2, Backoff: time.Nanosecond}}
	go func() {
		worked <- sys.Work(work, runtime.Config{Agents: []*agents.Agent{agent}, Models: map[string]model.Model{"script": m}}, true)
	}()
	defer func() {
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
		sys.Close()
	}()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: "teller", Input: "go", ClientKey: "one"})
	if err != nil {
		t.Fatal(err)
	}
	out, notes := new(paper), new(paper)
	a := newApp(nil, out, notes, time.Now)
	a.root()
	a.opts.Dir, a.output = dir, formatTable
	if err := a.flags.Set("dir", dir); err != nil {
		t.Fatal(err)
	}
	st, _, err := a.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tailed := make(chan error, 1)
	go func() { tailed <- a.tail(ctx, st, r, tailFlags{live: true, every: 20 * time.Millisecond}) }()
	m.more <- "Once upon a time and once more, long ago in a country "
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(out.String(), "Once upon") {
		select {
		case err := <-tailed:
			t.Fatalf("it ended, %v:\n%s%s", err, out, notes)
		case <-ctx.Done():
			t.Fatalf("the next attempt is not shown:\n%s%s", out, notes)
		case <-tick.C:
		}
	}
	if strings.Contains(out.String(), "run_finished") {
		t.Error("the next attempt had ended already")
	}
	close(m.more)
	if err := <-tailed; err != nil {
		t.Fatal(err)
	}
	ended, err := st.Run(ctx, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := "[attempt 2: run " + ended.Successor.String() + "]\n"; !strings.HasSuffix(notes.String(), want) {
		t.Errorf("told %q, want %q", notes, want)
	}
	for _, typ := range []string{"run_queued", "run_failed", "run_finished"} {
		want := map[string]int{"run_queued": 2, "run_failed": 1, "run_finished": 1}[typ]
		if n := strings.Count(out.String(), typ+" "); n != want {
			t.Errorf("%s is shown %d times, want %d:\n%s", typ, n, want, out)
		}
	}
}
