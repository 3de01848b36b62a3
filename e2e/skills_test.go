//go:build daybook_faults

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

const skillCanary = "canary-4k0Xv2TgW9q"

// skillFiles writes an agent with a skill that says text, and one that needs a tool
// which nobody has.
func skillFiles(t *testing.T, dir, text string) []string {
	t.Helper()
	for name, body := range map[string]string{
		"policy.yaml": "model: scripted/s\nrules:\n  - name: load\n    when: { last: user }\n    answer: { calls: [{ name: load_skill, arguments: { name: counting } }] }\n" +
			"  - name: say\n    when: { last: tool }\n    answer: { calls: [{ name: finish, arguments: { answer: \"{{result.load_skill}}\" } }] }\n",
		"agents/clerk/AGENT.md":                 "---\nname: clerk\nmodel: scripted/s\ntools: [finish]\nskills: [counting, needy]\n---\nCount.\n",
		"agents/clerk/skills/counting/SKILL.md": "---\nname: counting\ndescription: How things are counted.\n---\n" + text + "\n",
		"agents/clerk/skills/needy/SKILL.md":    "---\nname: needy\ndescription: Needs what nobody has.\nallowed-tools: Bash(git:*) send_mail\n---\nDo.\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--agents", filepath.Join(dir, "agents"), "--policy", "s=" + filepath.Join(dir, "policy.yaml")}
}

func (s *site) skillWorker(t *testing.T, faults string, more []string) *process {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(secret, []byte(skillCanary), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"worker", "--secret", "canary=" + secret, "--nats-sync", "always", "--project", "--grace", "100ms", "--lease-ttl", "1s", "--sweep", "50ms"}, s.flags()...)
	return start(t, filepath.Join(s.logs, "worker-"+fmt.Sprint(s.procs.Add(1))+".log"), []string{
		"DAYBOOK_FAULTS=" + faults, "DAYBOOK_FAULT_SEED=1",
	}, binary(t, "cmd/runner"), append(args, more...)...)
}

// A skill in processes of their own, over PostgreSQL and NATS. PR-58: one that needs
// what the run does not have leaves no row of a tool or a model. A worker is killed
// with SIGKILL right after it was told the instructions, and files say something else
// when the next one starts: the run goes on with what it was bound to. What is secret
// in a skill is nowhere.
func TestSkillsOverKillAndTakeover(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	s := distributedOn(t, dsn)
	dir := t.TempDir()
	client := runtime.NewClient(s.store, s.red, nil)
	submit := func(key string, skills ...string) ledger.Run {
		t.Helper()
		r, _, err := client.Submit(t.Context(), runtime.Submit{Agent: "clerk", Input: "go", ClientKey: key, Skills: skills, Prompt: "Be kind."})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	wait := func(r ledger.Run) ledger.Run {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		got, err := client.Wait(ctx, r.ID, false)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	r := submit("killed")
	first := s.skillWorker(t, "model.after_reply=kill@2", skillFiles(t, dir, "Count twice, with "+skillCanary+"."))
	<-first.done
	if !first.killed() {
		t.Fatalf("the worker was not killed:\n%s", first.tail())
	}
	second := s.skillWorker(t, "", skillFiles(t, dir, "Count once."))
	defer second.stop(t)
	if got := wait(r); got.State != ledger.Finished || !strings.HasPrefix(string(got.Result), `"Count twice, with [`) {
		t.Errorf("run %s %s %s", got.State, got.Error, got.Result)
	}
	if got := wait(submit("fresh")); string(got.Result) != `"Count once."` {
		t.Errorf("a new run: %s %s %s", got.State, got.Error, got.Result)
	}
	needy := wait(submit("needy", "needy"))
	if needy.State != ledger.Failed || !strings.Contains(needy.Error, `skill "needy" needs Bash, send_mail`) {
		t.Errorf("run %s %s", needy.State, needy.Error)
	}
	err := poll(patience, func() error { // else nothing could be there yet
		n, err := s.store.FoldBehind(t.Context(), 0, 100)
		if err == nil && n > 0 {
			err = errors.New("the fold is behind")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	for table, want := range map[string]int{"model_calls": 0, "tool_call_records": 0, "effect_attempts": 0, "events": 2} {
		var n int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE run_id = $1", [16]byte(needy.ID)).Scan(&n); err != nil || n != want {
			t.Errorf("%d rows in %s, want %d: %v", n, table, want, err)
		}
	}
	var found int
	err = db.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM blobs WHERE position($1::bytea in content) > 0) + (SELECT count(*) FROM events WHERE position($1::bytea in bytes) > 0)", []byte(skillCanary)).Scan(&found)
	if err != nil || found != 0 {
		t.Errorf("the secret is in %d rows: %v", found, err)
	}
	if found, n := leaks(t, map[string]string{"skill": skillCanary}, s.logs); len(found) > 0 || n == 0 {
		t.Errorf("of %d files: %q", n, found)
	}
	var started events.RunStarted
	err = s.store.Events(t.Context(), r.ID, 2, func(e events.Sealed) error {
		d, err := e.Decode()
		if p, ok := d.Data.(events.RunStarted); ok {
			started = p
		}
		return err
	})
	if err != nil || len(started.Skills) != 2 || started.Skills[0].Trust != "own" {
		t.Errorf("bound to %+v %v", started.Skills, err)
	}
}
