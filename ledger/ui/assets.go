package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"time"
)

// assets are all that the page loads. htmx is as its authors ship it; its version,
// its hash and its licence stand in assets/README.md.
//
//go:embed assets/page.css assets/icon.svg assets/htmx-2.0.11.min.js
var assets embed.FS

// file is one of them, and the hash of its bytes.
type file struct {
	content []byte
	hash    string
}

type files map[string]file

func readFiles() (files, error) {
	list, err := fs.ReadDir(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("read the page's files: %w", err)
	}
	all := files{}
	for _, e := range list {
		b, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the page's files: %w", err)
		}
		sum := sha256.Sum256(b)
		all[e.Name()] = file{b, hex.EncodeToString(sum[:8])}
	}
	return all, nil
}

// asset serves a file. Asked for by its hash it may be kept for ever: another
// content has another address.
func (p *page) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	f, ok := p.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	cache := "no-cache"
	if r.URL.Query().Get("v") == f.hash {
		cache = "public, max-age=31536000, immutable"
	}
	w.Header().Set("Cache-Control", cache)
	w.Header().Set("ETag", `"`+f.hash+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}

// link is the address of a file, with its hash.
func (f files) link(base, name string) string {
	return base + "/assets/" + name + "?v=" + f[name].hash
}
