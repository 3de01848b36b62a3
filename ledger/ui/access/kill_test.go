package access_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

// TestFileSurvivesKills: whoever adds tokens is killed (SIGKILL) at a moment that
// nobody chose; what it said it had added is there, whole, and the next goes on.
func TestFileSurvivesKills(t *testing.T) {
	if path := os.Getenv("ACCESS_ADDS_TO"); path != "" {
		addUntilKilled(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	added := 0
	for round := range 8 {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileSurvivesKills$")
		c.Env = append(os.Environ(), "ACCESS_ADDS_TO="+path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 + round {
			if !lines.Scan() || lines.Text() != "added" {
				t.Fatalf("the child said %q, %v", lines.Text(), lines.Err())
			}
			added++
		}
		_ = c.Process.Kill()
		for lines.Scan() && lines.Text() == "added" { // what it said before it died
			added++
		}
		_ = c.Wait()
		// One more may be there that it could not tell of any more.
		if n := len(tokensOf(t, path)); n != added && n != added+1 {
			t.Fatalf("round %d: %d tokens, it had added %d", round, n, added)
		} else {
			added = n
		}
	}
}

func addUntilKilled(t *testing.T, path string) {
	for i := range 500 {
		_, tok, err := access.Grant{Name: fmt.Sprintf("t%d", i), Scopes: []access.Scope{access.Read}}.New(time.Now(), nil)
		if err == nil {
			err = access.Add(path, tok)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("added")
	}
}
