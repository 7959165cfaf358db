package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPages(t *testing.T) {
	built := New(fstest.MapFS{
		"index.html": {Data: []byte("<!doctype html>built")}, "assets/a-1.js": {Data: []byte("plain")}, "assets/a-1.js.gz": {Data: []byte("packed")},
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", built.Index)
	mux.HandleFunc("GET /assets/{name}", built.Asset)
	for _, c := range []struct{ path, coding, want, cache string }{
		{"/", "gzip", "built", "no-cache"},
		{"/assets/a-1.js", "", "plain", "immutable"},
		{"/assets/a-1.js", "br, gzip;q=0.5", "packed", "immutable"},
		{"/assets/a-1.js", "gzip; q=0", "plain", "immutable"},
		{"/assets/b.js", "gzip", "404", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Accept-Encoding", c.coding)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), c.want) || !strings.Contains(w.Header().Get("Cache-Control"), c.cache) {
			t.Errorf("%s with %q: %v %q", c.path, c.coding, w.Header(), w.Body)
		}
		if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != (c.want == "packed") {
			t.Errorf("%s with %q: gzip is %v", c.path, c.coding, packed)
		}
	}
	w := httptest.NewRecorder()
	New(fstest.MapFS{}).Index(w, nil)
	if !strings.Contains(w.Body.String(), "make build") || strings.Contains(w.Body.String(), "<script") {
		t.Errorf("%s", w.Body)
	}
}
