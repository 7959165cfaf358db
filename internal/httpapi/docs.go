package httpapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"

	"github.com/berthdev/berth/api"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets our own pages load what lies beside them, and nothing from anywhere else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// addDocs adds the specification and the pages that explain it. It comes last: what is added after it
// is not in the specification.
func (a *Handler) addDocs() {
	spec, err := json.Marshal(a.spec.OpenAPI())
	if err != nil {
		panic(fmt.Sprintf("write specification: %v", err)) // it holds nothing but what is compiled in
	}
	a.page("/openapi.json", "application/json", spec)
	a.page("/docs", "text/html; charset=utf-8", docsFile("index.html"))
	a.page("/docs/problems", "text/html; charset=utf-8", problemsPage())
	a.page("/docs/docs.css", "text/css; charset=utf-8", docsFile("docs.css"))
	a.page("/docs/docs.js", "text/javascript; charset=utf-8", docsFile("docs.js"))
	for from, to := range doors {
		a.routes.handle(route{Method: http.MethodGet, Path: from + "{$}", Name: "door", Hidden: true}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to, http.StatusFound)
		})
	}
}

// doors are paths that people type, and the pages they lead to. They alone may end in a slash.
var doors = map[string]string{"/": "/docs", "/docs/": "/docs", "/docs/problems/": "/docs/problems"}

// page adds a route that always answers with the same bytes.
func (a *Handler) page(at, contentType string, content []byte) {
	a.routes.handle(route{Method: http.MethodGet, Path: at, Name: path.Base(at), Hidden: true}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		h.Set("Content-Security-Policy", docsPolicy)
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(content)
	})
}

func docsFile(name string) []byte {
	content, err := docsFiles.ReadFile("docs/" + name)
	if err != nil {
		panic(err) // the file is compiled in
	}
	return content
}

// problemsPage explains every code of the table under its own anchor, where the type of a problem
// points.
func problemsPage() []byte {
	page := template.Must(template.New("problems").Parse(string(docsFile("problems.html"))))
	var b bytes.Buffer
	if err := page.Execute(&b, api.Codes); err != nil {
		panic(fmt.Sprintf("write page of problems: %v", err)) // template and table are compiled in
	}
	return b.Bytes()
}
