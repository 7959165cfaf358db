// Package docs has the pages that explain the API, and the OpenAPI document.
package docs

import "github.com/berthdev/berth/internal/httpapi/rest"

type handlers struct {
	*rest.Spec
}

// Add adds the routes.
func Add(s *rest.Spec) {
	a := &handlers{Spec: s}
	a.addDocs()
}
