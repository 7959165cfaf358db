package httpapi

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

const pagesPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type specDoc struct {
	OpenAPI    string                               `json:"openapi"`
	Paths      map[string]map[string]map[string]any `json:"paths"`
	Tags       []struct{ Name, Description string } `json:"tags"`
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func (s *site) specification() (doc specDoc) {
	s.t.Helper()
	if err := json.Unmarshal(s.do(call{path: "/openapi.json"}).is(http.StatusOK).body, &doc); err != nil {
		s.t.Fatal(err)
	}
	return doc
}

// Every route is specified, and every specified route is served.
func TestRoutesAndSpecificationAgree(t *testing.T) {
	testkit.Proves(t, "X5")
	s := newSite(t)
	doc := s.specification()
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	var served, specified, unlisted []string
	for pattern, rt := range s.routes.All {
		if rt.Hidden {
			unlisted = append(unlisted, pattern)
		} else {
			served = append(served, strings.ReplaceAll(pattern, "...}", "}"))
		}
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			specified = append(specified, strings.ToUpper(method)+" "+path)
		}
	}
	sort.Strings(served)
	sort.Strings(specified)
	sort.Strings(unlisted)
	if !slices.Equal(served, specified) {
		t.Errorf("served:\n%s\nspecified:\n%s", strings.Join(served, "\n"), strings.Join(specified, "\n"))
	}
	pages := []string{"POST /slack/events", "GET /assets/{name}", "GET /docs", "GET /docs/docs.css", "GET /docs/docs.js", "GET /docs/problems", "GET /docs/problems/{$}", "GET /docs/{$}", "GET /openapi.json", "GET /{$}"}
	for _, pattern := range unlisted {
		_, path, _ := strings.Cut(pattern, " ")
		twin := strings.ReplaceAll(strings.Replace(pattern, " /api/v1/sandbox/", " /api/v1/sandboxes/", 1), "...}", "}")
		twin = strings.Replace(twin+"$", " /api/v1/sandbox$", " /api/v1/sandboxes$", 1)
		twin = strings.NewReplacer(" /conversations", " "+conversationsPath, " /conversation", " "+conversationsPath, " /sandboxes/", " "+sandboxesPath+"/").Replace(twin)
		// Ports take any method, and are specified with one.
		if !slices.Contains(served, strings.TrimSuffix(twin, "$")) && !slices.Contains(pages, pattern) && !strings.Contains(path, "/{id}/ports/{port}") {
			t.Errorf("%s is served and not specified", pattern)
		}
	}
	for pattern := range s.routes.All {
		method, path, _ := strings.Cut(pattern, " ")
		r, err := http.NewRequest(method, regexp.MustCompile(`{[a-z_.]+}`).ReplaceAllString(strings.ReplaceAll(path, "{$}", ""), "x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, found := s.routes.Mux.Handler(r); found != pattern {
			t.Errorf("the mux serves %s %s by %q, want %q", method, r.URL.Path, found, pattern)
		}
	}
}

func TestSpecificationTellsWhatMatters(t *testing.T) {
	s := newSite(t)
	doc := s.specification()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			responses, _ := op["responses"].(map[string]any)
			if op["summary"] == "" || len(responses) < 2 || responses["500"] == nil {
				t.Errorf("%s %s says too little: %v", method, path, op)
			}
			open := path == "/healthz" || path == "/readyz"
			if ways, _ := op["security"].([]any); (len(ways) == 0) != open {
				t.Errorf("%s %s: security %v", method, path, op["security"])
			}
			text, _ := json.Marshal(op["parameters"])
			if keyed := strings.Contains(string(text), idempotencyHeader); keyed != (method == "post") {
				t.Errorf("%s %s: parameters %s", method, path, text)
			}
			for status, r := range responses {
				content, _ := json.Marshal(r)
				if status >= "400" && !strings.Contains(string(content), "#/components/schemas/Problem") && path != "/readyz" {
					t.Errorf("%s %s: %s is no problem: %s", method, path, status, content)
				}
			}
		}
	}
	for name, schema := range doc.Components.Schemas {
		for property := range schema.Properties {
			if property != strings.ToLower(property) {
				t.Errorf("%s has the property %s", name, property)
			}
		}
		if _, has := schema.Properties["$schema"]; has {
			t.Errorf("%s has $schema", name)
		}
	}
	if a := s.post(sandboxesPath, "{}"); strings.Contains(string(a.body), "$schema") || a.header.Get("Link") != "" {
		t.Errorf("an answer has $schema: %s", a.body)
	}
}

func TestPagesAskNothingOfOthers(t *testing.T) {
	testkit.Proves(t, "X5")
	s := newSite(t)
	external := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z]|@import|\burl\(`)
	for path, contentType := range map[string]string{
		"/docs": "text/html", "/docs/problems": "text/html", "/docs/docs.css": "text/css", "/docs/docs.js": "text/javascript",
	} {
		a := s.do(call{path: path}).is(http.StatusOK)
		if !strings.HasPrefix(a.header.Get("Content-Type"), contentType) || a.header.Get("Content-Security-Policy") != pagesPolicy {
			t.Errorf("%s: %v", path, a.header)
		}
		if found := external.Find(a.body); found != nil {
			t.Errorf("%s refers to %s", path, found)
		}
		for _, found := range regexp.MustCompile(`(?:href|src)="(/[^"#]*)`).FindAllSubmatch(a.body, -1) {
			s.do(call{path: string(found[1])}).is(http.StatusOK)
		}
		if strings.Contains(string(a.body), "<script>") || strings.Contains(string(a.body), "style=") || strings.Contains(string(a.body), "innerHTML") {
			t.Errorf("%s has what its policy forbids", path)
		}
	}
	for from, to := range map[string]string{"/docs/": "/docs", "/docs/problems/": "/docs/problems"} {
		if a := s.do(call{path: from}).is(http.StatusFound); a.header.Get("Location") != to {
			t.Errorf("%s leads to %q, want %q", from, a.header.Get("Location"), to)
		}
	}
	s.do(call{path: "/docs/docs.css/"}).fails(api.CodeInvalidPath)
}

// The type of every problem leads to its explanation.
func TestEveryProblemIsExplained(t *testing.T) {
	testkit.Proves(t, "E1")
	page := string(newSite(t).do(call{path: "/docs/problems"}).is(http.StatusOK).body)
	for _, info := range api.Codes {
		anchor := strings.TrimPrefix(api.NewProblem(info.Code, "").Type, "/docs/problems#")
		if !strings.Contains(page, `id="`+anchor+`"`) || !strings.Contains(page, html.EscapeString(info.Title)) {
			t.Errorf("%s is not explained", info.Code)
		}
	}
}
