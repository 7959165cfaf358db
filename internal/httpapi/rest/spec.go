// Package rest describes the operations of the API and serves them. [Serve] takes a handler with Go types,
// [Spec.ServeRaw] a plain one; both put the operation into the OpenAPI document. The package also has what operations
// share: pages and cursors ([ListOf]), JSON bodies ([NewBody]) and parameters.
package rest

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Spec is the OpenAPI document and the routes that it describes.
type Spec struct {
	Routes *exchange.Routes
	API    huma.API
}
