package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// TestMain makes children of this program: the real one, and some that behave
// as a parser that was broken.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "extract-") {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "extract-child":
		os.Exit(Child(os.Stdin, os.Stdout))
	case "extract-crash":
		os.Exit(3)
	case "extract-garbage":
		fmt.Println("not what was asked for")
	case "extract-flood":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat(`"`, 1<<16)); err != nil {
				os.Exit(1)
			}
		}
	case "extract-memory", "extract-cpu":
		if err := confine(task{Memory: 64 << 20, CPUSeconds: 1}); err != nil {
			os.Exit(9)
		}
		var all [][]byte
		for os.Args[1] == "extract-memory" {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
		for n := 0; ; n++ {
			all = append(all[:0], nil)
		}
	case "extract-tree", "extract-deserter":
		// A grandchild that holds the pipes open, and says under which number.
		c := exec.Command("/bin/sleep", "600")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: os.Args[1] == "extract-deserter"}
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			os.Exit(1)
		}
		if err := os.WriteFile(os.Args[2], fmt.Appendln(nil, c.Process.Pid), 0o600); err != nil {
			os.Exit(1)
		}
		_ = c.Wait()
	case "extract-env":
		_ = json.NewEncoder(os.Stdout).Encode(document{Text: strings.Join(os.Environ(), " ")})
	}
	os.Exit(0)
}

func self(tb testing.TB, args ...string) []string {
	tb.Helper()
	me, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]string{me}, args...)
}

// reader reads what docs.example.com serves: by path a type and a body.
func reader(t *testing.T, command []string, limits Limits, site map[string][2]string) (*Reader, *netguardtest.Internet) {
	t.Helper()
	in := netguardtest.New(t)
	in.HandleFunc("docs.example.com", func(w http.ResponseWriter, r *http.Request) {
		page, ok := site[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header()["Content-Type"] = nil
		if page[0] != "" {
			w.Header().Set("Content-Type", page[0])
		}
		_, _ = io.WriteString(w, page[1])
	})
	rd, err := NewReader(Options{Policy: netguard.Policy{Allow: []string{"docs.example.com"}, Net: in.Net()}, Command: command, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return rd, in
}

// cancelWithChild reads a document with a parser that starts a process of its
// own, cancels that when it runs, and returns its number and how reading ended.
func cancelWithChild(t *testing.T, command string, site map[string][2]string) (pid int, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	r, _ := reader(t, self(t, command, file), Limits{Time: 10 * time.Minute}, site)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	read := make(chan error, 1)
	go func() {
		_, err := r.Read(ctx, "https://docs.example.com/")
		read <- err
	}()
	for pid == 0 && ctx.Err() == nil {
		if b, _ := os.ReadFile(file); bytes.HasSuffix(b, []byte("\n")) {
			_, _ = fmt.Sscan(string(b), &pid)
		}
		yield()
	}
	cancel()
	return pid, <-read
}

func call(t *testing.T, r *Reader, url string) events.ToolResult {
	t.Helper()
	tool, err := Tool(r)
	if err != nil {
		t.Fatal(err)
	}
	args, _ := json.Marshal(map[string]string{"url": url})
	d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: args})
	return d.Result
}

func TestExtract(t *testing.T) {
	word := makeDOCX(t, "word/document.xml", wordHead+"<w:p><w:r><w:t>Low water</w:t></w:r></w:p>"+wordTail)
	r, in := reader(t, self(t, "extract-child"), Limits{Time: 2 * time.Minute, CPU: 20 * time.Second}, map[string][2]string{
		"/a.pdf":     {"application/pdf", string(makePDF("Tides", "High water"))},
		"/b":         {"application/octet-stream", string(makePDF("Tides", "High water"))},
		"/c.docx":    {docxType, string(word)},
		"/d.docx":    {"application/zip", string(word)},
		"/e":         {"text/html; charset=utf-8", article},
		"/f.md":      {"", "# Low water"},
		"/g.txt":     {"text/plain", "Low water"},
		"/h.json":    {"application/json", `{"water":"low"}`},
		"/i.png":     {"image/png", "\x89PNG"},
		"/j":         {"", "\x00\x01\x02"},
		"/k.pdf":     {"application/pdf", "not a pdf at all"},
		"/l":         {"text/plain", " \n"},
		"/long":      {"text/plain", strings.Repeat("x", 2<<20)},
		"/bomb.pdf":  {"application/pdf", string(bombPDF(400 << 20))},
		"/bomb.docx": {docxType, string(makeDOCX(t, "word/document.xml", wordHead+strings.Repeat("<w:p></w:p>", 1<<20)+wordTail))},
	})
	for _, tt := range []struct{ path, want, title, err string }{
		{"/a.pdf", "Tides\n\nHigh water", "Tides", ""},
		{"/b?x=1", "Tides\n\nHigh water", "Tides", ""},
		{"/c.docx", "Low water", "", ""},
		{"/d.docx", "Low water", "", ""},
		{"/e", "Tides of tea\n\nTea follows the tides, as every harbour knows", "Tides of tea", ""},
		{"/f.md", "# Low water", "", ""},
		{"/g.txt", "Low water", "", ""},
		{"/h.json", `{"water":"low"}`, "", ""},
		{"/l", " \nthe document has no text in it", "", ""},
		{"/i.png", "", "", `documents of type "image/png" are not read`},
		{"/j", "", "", `documents of type "" are not read`},
		{"/k.pdf", "", "", "the document could not be parsed: it is damaged"},
		{"/missing", "", "", "the document could not be had: status 404"},
		{"/bomb.docx", "", "", "the document could not be parsed: it unpacks to too much"},
		{"/bomb.pdf", "", "", "the document could not be parsed"},
	} {
		t.Run("SG-75 "+tt.path, func(t *testing.T) {
			res := call(t, r, "https://docs.example.com"+tt.path)
			ok := res.Status == tools.Completed && strings.HasPrefix(res.Output, tt.want) && len(res.Sources) == 1 &&
				res.Sources[0] == events.Source{Title: tt.title, URL: "https://docs.example.com" + tt.path}
			if tt.err != "" {
				ok = res.Status == tools.Failed && strings.HasPrefix(res.Error, tt.err)
			}
			if !ok || res.Trust != string(tools.External) {
				t.Errorf("%.300s", fmt.Sprintf("%+v", res))
			}
		})
	}
	t.Run("SG-75 tables of a PDF that go round", func(t *testing.T) { // the reader never comes back from it
		pdf := makePDF("t", "text")
		round := bytes.Replace(pdf, []byte("/Info 4 0 R"), fmt.Appendf(nil, "/Info 4 0 R /Prev %d", bytes.LastIndex(pdf, []byte("xref\n0 "))), 1)
		r, _ := reader(t, self(t, "extract-child"), Limits{CPU: time.Second, Time: time.Minute}, map[string][2]string{"/": {"application/pdf", string(round)}})
		if res := call(t, r, "https://docs.example.com/"); res.Status != tools.Failed || !strings.HasPrefix(res.Error, "the document could not be parsed") {
			t.Errorf("%+v", res)
		}
	})
	for _, typ := range []string{
		"application/x-tar", "application/gzip", "application/x-7z-compressed", "application/x-bzip2", "application/zstd",
		"image/png", "image/jpeg", "image/svg", "video/mp4", "application/x-msdownload",
	} {
		t.Run("SG-75 not unpacked or decoded: "+typ, func(t *testing.T) {
			r, _ := reader(t, []string{"/no/such/program"}, Limits{}, map[string][2]string{"/": {typ, "x"}})
			if res := call(t, r, "https://docs.example.com/"); res.Status != tools.Failed || !strings.Contains(res.Error, "are not read") {
				t.Errorf("%+v", res)
			}
		})
	}
	t.Run("SG-75 a long one is cut twice, and says so", func(t *testing.T) {
		p, err := r.Read(t.Context(), "https://docs.example.com/long")
		if err != nil || !p.Cut || len(p.Text) != 1<<20 {
			t.Errorf("%d bytes, cut %v, %v", len(p.Text), p.Cut, err)
		}
		if res := call(t, r, "https://docs.example.com/long"); res.Truncated == nil {
			t.Errorf("%d bytes and not cut", len(res.Output))
		}
	})
	t.Run("SG-75 the kit", func(t *testing.T) {
		tool, err := Tool(r)
		if err != nil {
			t.Fatal(err)
		}
		toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"url":"https://docs.example.com/g.txt"}`)})
	})
	t.Run("SG-75 behind the guard", func(t *testing.T) {
		before := len(in.Dialled())
		for _, url := range []string{"https://169.254.169.254/", "http://docs.example.com/", "https://other.example.com/", "file:///etc/passwd"} {
			if res := call(t, r, url); res.Status != tools.Failed || !strings.HasPrefix(res.Error, "refused: ") {
				t.Errorf("%s: %+v", url, res)
			}
		}
		if got := len(in.Dialled()); got != before {
			t.Errorf("%d connections attempted", got-before)
		}
	})
}

// What a host sends back of the policy's credentials does not reach a model.
func TestEchoedCredentials(t *testing.T) {
	const secret = "s3cret_t0*ken_"
	in := netguardtest.New(t)
	in.HandleFunc("docs.example.com", func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/text?as="+url.QueryEscape(auth), http.StatusFound)
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<html><head><title>%s</title></head><body><article><h1>You</h1><p>You sent %s as your name.</p></article></body></html>", auth, auth)
		case "/odd":
			w.Header().Set("Content-Type", "image/"+auth[len("Bearer "):])
		default:
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "you sent "+auth)
		}
	})
	rd, err := NewReader(Options{Policy: netguard.Policy{
		Allow: []string{"docs.example.com"}, Net: in.Net(),
		Headers: []netguard.Header{{Host: "docs.example.com", Name: "Authorization", Value: "Bearer " + secret}},
	}, Command: self(t, "extract-child")})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/text", "/html", "/moved", "/odd"} {
		res := call(t, rd, "https://docs.example.com"+path)
		b, _ := json.Marshal(res)
		if !strings.Contains(string(b), "[withheld]") || strings.Contains(string(b), "s3cret") {
			t.Errorf("%s: %s", path, b)
		}
	}
}

// Whatever the encoding, and also where parsing takes it off.
func TestEchoedCredentialsInAllEncodings(t *testing.T) {
	for name, form := range netguardtest.Echoes(netguardtest.Canary) {
		t.Run("SG-75 "+name, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("docs.example.com", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if r.URL.Path == "/docx" {
					w.Header().Set("Content-Type", docxType)
					_, _ = w.Write(makeDOCX(t, "word/document.xml", wordHead+"<w:p><w:r><w:t>You are "+html.EscapeString(form)+".</w:t></w:r></w:p>"+wordTail))
					return
				}
				fmt.Fprintf(w, "<html><head><title>Hello</title></head><body><article><p>You are %s.</p></article></body></html>", form)
			})
			rd, err := NewReader(Options{Policy: netguard.Policy{
				Allow: []string{"docs.example.com"}, Net: in.Net(),
				Headers: []netguard.Header{{Host: "docs.example.com", Name: "X-Key", Value: netguardtest.Canary}},
			}, Command: self(t, "extract-child")})
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/html", "/docx"} {
				res := call(t, rd, "https://docs.example.com"+path)
				b, _ := json.Marshal(res)
				if leaks := netguardtest.Leaks(netguardtest.Canary, string(b)); leaks != nil || !strings.Contains(string(b), "[withheld]") {
					t.Errorf("%s: %v in %s", path, leaks, b)
				}
			}
		})
	}
}

func TestParsersThatMisbehave(t *testing.T) {
	t.Setenv("DAYBOOK_SECRET", "s3cret")
	site := map[string][2]string{"/": {"text/plain", "x"}}
	for _, tt := range []struct {
		name, command string
		limits        Limits
		want          string
	}{
		{"crashes", "extract-crash", Limits{}, "it breaks the parser"},
		{"says something else", "extract-garbage", Limits{}, "it breaks the parser"},
		{"never ends talking", "extract-flood", Limits{Text: 1000}, "it breaks the parser"},
		{"takes all memory", "extract-memory", Limits{Time: time.Minute}, "it breaks the parser"},
		{"takes all processor time", "extract-cpu", Limits{Time: time.Minute}, "it breaks the parser"},
	} {
		t.Run("SG-75 "+tt.name, func(t *testing.T) {
			r, _ := reader(t, self(t, tt.command), tt.limits, site)
			if res := call(t, r, "https://docs.example.com/"); res.Status != tools.Failed || !strings.Contains(res.Error, tt.want) {
				t.Errorf("%+v", res)
			}
		})
	}
	t.Run("SG-75 hangs", func(t *testing.T) {
		r, _ := reader(t, self(t, "extract-tree", filepath.Join(t.TempDir(), "pid")), Limits{Time: time.Second}, site)
		if res := call(t, r, "https://docs.example.com/"); res.Status != tools.Failed || res.Error != "the document could not be parsed in 1s" {
			t.Errorf("%+v", res)
		}
	})
	t.Run("SG-75 is killed with all that it started", func(t *testing.T) {
		pid, err := cancelWithChild(t, "extract-tree", site)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		for !testenv.Gone(pid) {
			yield()
		}
	})
	t.Run("SG-75 is not waited for where a child of it has left its group", func(t *testing.T) {
		pid, err := cancelWithChild(t, "extract-deserter", site)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("the child of the child: %v", err)
		}
	})
	t.Run("SG-75 knows nothing of this process", func(t *testing.T) {
		r, _ := reader(t, self(t, "extract-env"), Limits{}, site)
		if res := call(t, r, "https://docs.example.com/"); res.Status != tools.Completed || strings.Contains(res.Output, "s3cret") || strings.Contains(res.Output, "PATH=") {
			t.Errorf("%+v", res)
		}
	})
	t.Run("SG-75 no program", func(t *testing.T) {
		r, _ := reader(t, []string{"/no/such/program"}, Limits{}, site)
		if res := call(t, r, "https://docs.example.com/"); res.Status != tools.Failed || strings.Contains(res.Error, "/no/such") {
			t.Errorf("%+v", res)
		}
		for _, o := range []Options{
			{Policy: netguard.Policy{Allow: []string{"*"}}},
			{Command: []string{"x"}},
			{Policy: netguard.Policy{Allow: []string{"*"}}, Command: []string{"x"}, Limits: Limits{Memory: -1}},
		} {
			if _, err := NewReader(o); err == nil {
				t.Errorf("%+v is accepted", o)
			}
		}
	})
}

// yield lets others run while a test waits for a process.
func yield() { <-time.After(time.Millisecond) }
