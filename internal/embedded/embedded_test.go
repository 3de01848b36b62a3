package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.StoreDir == "" {
		cfg.StoreDir = t.TempDir()
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, s *Server) jetstream.JetStream {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestRestartKeepsAckedMessages(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprintf("sync interval %v", interval), func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, Config{StoreDir: dir, SyncInterval: interval})
			js := connect(t, s)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
				t.Fatal(err)
			}
			const n = 50
			for i := range n {
				if _, err := js.Publish(t.Context(), "s.a", fmt.Appendf(nil, "message %d", i)); err != nil {
					t.Fatal(err)
				}
			}
			s.Shutdown()

			js = connect(t, start(t, Config{StoreDir: dir, SyncInterval: interval}))
			stream, err := js.Stream(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				msg, err := stream.GetMsg(t.Context(), uint64(i+1))
				if err != nil {
					t.Fatalf("message %d of %d: %v", i+1, n, err)
				}
				if want := fmt.Sprintf("message %d", i); string(msg.Data) != want {
					t.Errorf("message %d = %q, want %q", i+1, msg.Data, want)
				}
			}
		})
	}
}

func TestListen(t *testing.T) {
	t.Run("nowhere unless asked", func(t *testing.T) {
		s := start(t, Config{})
		if url := s.ClientURL(); url != "" {
			t.Errorf("ClientURL() = %q, want none", url)
		}
	})
	t.Run("on a free port that can be taken again", func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, Config{StoreDir: dir, Listen: "127.0.0.1:0"})
		url := s.ClientURL()
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		s.Shutdown()
		again := start(t, Config{StoreDir: dir, Listen: url[len("nats://"):]})
		if again.ClientURL() != url {
			t.Errorf("ClientURL() = %q after a restart, want %q", again.ClientURL(), url)
		}
	})
}

func TestStartFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name string
		cfg  Config
	}{
		{"without a store directory", Config{}},
		{"on a file", Config{StoreDir: file}},
		{"on an address without a port", Config{StoreDir: t.TempDir(), Listen: "127.0.0.1"}},
		{"on a port that is no number", Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:nats"}},
		{"on a port that is taken", Config{StoreDir: t.TempDir(), Listen: taken.Addr().String()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			s, err := Start(tt.cfg)
			if err == nil {
				s.Shutdown()
				t.Fatal("Start succeeded")
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v to say %q", took, err)
			}
		})
	}
}

func TestOneServerPerStore(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{StoreDir: dir})
	if _, err := Start(Config{StoreDir: dir}); !errors.Is(err, ErrStoreInUse) {
		t.Errorf("second Start: err = %v, want ErrStoreInUse", err)
	}
	s.Shutdown()
	s.Shutdown() // twice is once
	start(t, Config{StoreDir: dir})
}

func TestLoggerHearsTheServer(t *testing.T) {
	var out bytes.Buffer
	s := start(t, Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	s.Shutdown()
	if !bytes.Contains(out.Bytes(), []byte("JetStream")) {
		t.Errorf("log = %q, want a line about JetStream", out.String())
	}
}

// The broker of docker-compose.yml must keep the same promise as the embedded
// one: acknowledged means fsynced.
func TestShippedConfigSyncsAlways(t *testing.T) {
	opts, err := server.ProcessConfigFile("../../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !opts.JetStream || !opts.SyncAlways {
		t.Errorf("JetStream = %v, SyncAlways = %v, want both", opts.JetStream, opts.SyncAlways)
	}
}
