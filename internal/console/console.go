// Package console serves the pages of the console, which use the API as any other client.
package console

import (
	"bytes"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// policy lets the pages load files of this server alone. Scripts and styles in a page itself are refused.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const unbuilt = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Berth</title>
<h1>Berth</h1>
<p>This program was built without the console. <code>make build</code> builds it; the API and <code>berth</code> work without it.</p>
<p><a href="/docs">API documentation</a> · <a href="/login">sign in</a></p></html>
`

// Pages are the console's files.
type Pages struct{ files fs.FS }

// New returns the pages of a built console. Without an index.html in files, a page says how to build it.
func New(files fs.FS) Pages { return Pages{files} }

// Index answers with the page of the console, which loads all others.
func (p Pages) Index(w http.ResponseWriter, _ *http.Request) {
	text, err := fs.ReadFile(p.files, "index.html")
	if err != nil {
		text = []byte(unbuilt)
	}
	w.Header().Set("Cache-Control", "no-cache")
	write(w, "text/html; charset=utf-8", text)
}

// Asset answers with a file below assets. Its name has a hash of its content, so it may be kept.
func (p Pages) Asset(w http.ResponseWriter, r *http.Request) {
	name := path.Join("assets", r.PathValue("name"))
	text, err := fs.ReadFile(p.files, name)
	if err != nil { // a page of an earlier version, after an upgrade
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	kind := mime.TypeByExtension(path.Ext(name))
	if packed, err := fs.ReadFile(p.files, name+".gz"); err == nil {
		w.Header().Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			text = packed
		}
	}
	write(w, kind, text)
}

func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if name == "gzip" {
			return strings.ReplaceAll(quality, " ", "") != "q=0"
		}
	}
	return false
}

func write(w http.ResponseWriter, kind string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send forms with the origin "null"
	_, _ = bytes.NewReader(text).WriteTo(w) // the client may have disconnected
}
