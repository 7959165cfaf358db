package docs

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
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
)

//go:embed *.html *.css *.js
var docsFiles embed.FS

// docsPolicy lets the documentation pages load files of this server, and nothing from other servers.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// addDocs adds the OpenAPI document and the pages that explain it. It must run after all other routes were added to
// the document.
func (a *handlers) addDocs() {
	spec, err := json.Marshal(a.API.OpenAPI())
	if err != nil {
		panic(fmt.Sprintf("write specification: %v", err)) // all of it is compiled in
	}
	a.page("/openapi.json", "application/json", spec)
	a.page("/docs", "text/html; charset=utf-8", docsFile("index.html"))
	a.page("/docs/problems", "text/html; charset=utf-8", problemsPage())
	a.page("/docs/docs.css", "text/css; charset=utf-8", docsFile("docs.css"))
	a.page("/docs/docs.js", "text/javascript; charset=utf-8", docsFile("docs.js"))
	for from, to := range middleware.Redirects {
		a.Routes.Handle(exchange.Route{Method: http.MethodGet, Path: from + "{$}", Name: "door", Hidden: true}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to, http.StatusFound)
		})
	}
}

// page adds a route that always answers with the same bytes.
func (a *handlers) page(at, contentType string, content []byte) {
	a.Routes.Handle(exchange.Route{Method: http.MethodGet, Path: at, Name: path.Base(at), Hidden: true}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		h.Set("Content-Security-Policy", docsPolicy)
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(content)
	})
}

func docsFile(name string) []byte {
	content, err := docsFiles.ReadFile(name)
	if err != nil {
		panic(err) // the file is compiled in
	}
	return content
}

// problemsPage returns the page that explains all codes of the table. The type of a problem is the URL of its code
// there.
func problemsPage() []byte {
	page := template.Must(template.New("problems").Parse(string(docsFile("problems.html"))))
	var b bytes.Buffer
	if err := page.Execute(&b, api.Codes); err != nil {
		panic(fmt.Sprintf("write page of problems: %v", err)) // template and table are compiled in
	}
	return b.Bytes()
}
