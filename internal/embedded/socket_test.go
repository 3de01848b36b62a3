package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestSocketLetsOthersIn(t *testing.T) {
	for name, dir := range map[string]string{"short": "s", "longer than a socket's path may be": strings.Repeat("long", 40)} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), dir, "nats.sock")
			if err := os.Mkdir(filepath.Dir(socket), 0o700); err != nil {
				t.Fatal(err)
			}
			store := t.TempDir()
			s := start(t, Config{StoreDir: store, Socket: socket})
			if i, err := os.Stat(socket); err != nil || i.Mode().Perm() != 0o600 {
				t.Fatalf("the socket is %v, %v", i, err)
			}
			nc, err := Dial(socket, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			got, err := nc.SubscribeSync("live.x")
			if err != nil {
				t.Fatal(err)
			}
			hear := func(s *Server) {
				t.Helper()
				own, err := s.Connect()
				if err != nil {
					t.Fatal(err)
				}
				defer own.Close()
				for end := time.Now().Add(time.Minute); ; { // until the other side is back
					if err := own.Publish("live.x", []byte("hello")); err != nil {
						t.Fatal(err)
					}
					if m, err := got.NextMsg(50 * time.Millisecond); err == nil && string(m.Data) == "hello" {
						return
					}
					if time.Now().After(end) {
						t.Fatal("nothing is heard through the socket")
					}
				}
			}
			hear(s)
			s.Shutdown()
			if _, err := os.Stat(socket); !os.IsNotExist(err) {
				t.Errorf("the socket is left behind: %v", err)
			}
			// What a killed process leaves is taken away.
			if err := os.WriteFile(socket, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			hear(start(t, Config{StoreDir: store, Socket: socket}))
		})
	}
}
