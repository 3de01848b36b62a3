package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

var update = flag.Bool("update", false, "rewrite the goldens of current versions")

// filler fills every field of a payload with a value of its own, so that a
// field that is renamed, dropped or added changes the golden.
type filler struct{ n int64 }

var moment = time.Date(2026, 11, 29, 12, 30, 0, 123456000, time.UTC)

func (f *filler) fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	f.n++
	switch p := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*p = json.RawMessage(fmt.Sprintf(`{"big":9007199254740993,"n":%d}`, f.n))
		return
	case *time.Time:
		*p = moment.Add(time.Duration(f.n) * time.Second)
		return
	case *events.Hash:
		*p = events.Genesis(events.RunID{byte(f.n)})
		return
	case *events.ID:
		*p = events.ID{1, 0x93, 0x7a, 15: byte(f.n)}
		return
	case *events.RunID:
		*p = events.RunID{1, 0x93, 0x7a, 14: 1, 15: byte(f.n)}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%s %d", strings.ToLower(name), f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.n)
	case reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(t, v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(t, v.Index(i), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	default:
		t.Fatalf("field %s: the filler knows no %s", name, v.Type())
	}
}

func filled(t *testing.T, typ events.Type, version int) events.Payload {
	t.Helper()
	zero, err := events.DecodePayload(typ, version, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.New(reflect.TypeOf(zero)).Elem()
	(&filler{}).fill(t, v, "")
	return v.Interface().(events.Payload)
}

func seal(t testing.TB, env events.Envelope, p any) events.Sealed {
	t.Helper()
	data, err := redact.New(redact.Config{}).JSON(p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := events.Seal(env, data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func envelope(typ events.Type, version int) events.Envelope {
	run := events.RunID{1, 0x93, 0x7a, 15: 7}
	return events.Envelope{
		ID: events.ID{1, 0x93, 0x7a, 15: 9}, RunID: run, Seq: 1, Epoch: 3, Type: typ, Version: version,
		Time: moment, Tenant: "acme", SessionID: "session 1",
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Prev: events.Genesis(run),
	}
}

func goldenPath(typ events.Type, version int) string {
	return filepath.Join("testdata", fmt.Sprintf("%s.v%d.json", typ, version))
}

// TestGoldens pins the stored bytes, the hash and the journal message of every
// version of every type.
func TestGoldens(t *testing.T) {
	want := map[string]bool{}
	for _, typ := range events.Types() {
		current, _ := events.CurrentVersion(typ)
		for version := 1; version <= current; version++ {
			path := goldenPath(typ, version)
			want[path] = true
			t.Run(filepath.Base(path), func(t *testing.T) { golden(t, path, typ, version, version == current) })
		}
	}
	files, err := filepath.Glob("testdata/*.v*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f] {
			t.Errorf("%s belongs to no type; stored events of it would no longer decode", f)
		}
	}
}

func golden(t *testing.T, path string, typ events.Type, version int, current bool) {
	p := filled(t, typ, version)
	got := append(events.AppendMessage(nil, []events.Sealed{seal(t, envelope(typ, version), p)}), '\n')
	want, err := os.ReadFile(path)
	if *update && (current || os.IsNotExist(err)) {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		want, err = got, nil
	}
	if err != nil {
		t.Fatalf("%v; a new type gets its golden from: go test ./events -update", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s changed; stored events would no longer decode, so a changed type is a new version beside the old one\n%s",
			path, cmp.Diff(string(want), string(got)))
	}
	es, bad, err := events.ParseMessage(want)
	if err != nil || len(bad) > 0 || len(es) != 1 {
		t.Fatalf("%s: %d events, rejected %v, %v", path, len(es), bad, err)
	}
	e, err := es[0].Decode()
	if err != nil {
		t.Fatalf("%s no longer decodes: %v", path, err)
	}
	if d := cmp.Diff(events.Event{Envelope: envelope(typ, version), Hash: es[0].Hash(), Data: p}, e); d != "" {
		t.Errorf("%s decodes to something else (-want +got):\n%s", path, d)
	}
}
