package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// operation is one route as the specification has it.
type operation struct {
	route
	Tag, Summary, Description string

	Status   int            // of success; zero: 200 with a body, 204 without
	Also     map[int]string // further statuses of success, with the same body, and what they mean
	Problems []api.Code     // besides those that any route may answer
}

// anyProblem and anyKeyed are what every route, and every route with a key, may answer.
var (
	anyProblem = []api.Code{api.CodeInvalidRequest, api.CodeInvalidPath, api.CodeWrongHostHeader, api.CodeHeadersTooLarge, api.CodeInternal, api.CodeStoreUnavailable, api.CodeServerDiskFull, api.CodeShuttingDown, api.CodeTooManyConns, api.CodeTimeout}
	anyKeyed   = []api.Code{api.CodeUnauthenticated, api.CodeForbidden, api.CodeRateLimited}
	anyUnsafe  = []api.Code{api.CodeForeignOrigin, api.CodeBodyTooLarge, api.CodeUnsupportedMedia, api.CodeBodyTimeout}
	anyPost    = []api.Code{api.CodeKeyReused, api.CodeKeyInFlight, api.CodeInvalidKey}
)

// tags are the groups of operations, in the order the documentation shows them.
var tags = []*huma.Tag{
	{Name: "Sandboxes", Description: "A durable workspace and the instance that runs it."},
	{Name: "Projects", Description: "Each project has exactly one sandbox, made on its first use and kept running for the project's life."},
	{Name: "Conversations", Description: "Prompts to an agent and its answers, in one sandbox. A prompt is a turn, which runs apart from the request that asked for it."},
	{Name: "Keys", Description: "API keys of the tenant. All of it needs a key of scope admin."},
	{Name: "Accounts", Description: "The people and services of the tenant. Changing them needs scope admin."},
	{Name: "Agents", Description: "Templates with changes of the tenant's own. Changing them needs scope admin."},
	{Name: "Templates", Description: "What sandboxes are made of. They are part of the server's configuration."},
	{Name: "Operations", Description: "How the server itself is doing."},
}

// newSpec makes the part of huma that we use: typed handlers, validation and the specification.
func newSpec(rs *routes, version string) huma.API {
	c := huma.DefaultConfig("Berth", version)
	c.Info.Description = "Sandboxes for AI agents: one per owner, created on first use, brought back with every file in place."
	c.Tags = tags
	c.CreateHooks = nil // they would add $schema to every body
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key; 'berth keys create' makes one."},
		"header": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "The same key, for clients that cannot set Authorization."},
	}
	spec := humago.New(rs.mux, c)
	// A problem within an answer is the same as one that is the answer.
	spec.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[api.Problem](), reflect.TypeFor[problem]())
	return spec
}

// serve adds an operation whose handler takes and returns Go values. Whatever error it returns is
// answered as a problem.
func serve[I, O any](a *Handler, op operation, handle func(context.Context, *I) (*O, error)) {
	a.routes.add(op.route)
	doc := a.document(op)
	huma.Register(a.spec, doc, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return out, nil
	})
	usual := doc.Responses[strconv.Itoa(cmp.Or(op.Status, http.StatusOK))]
	for status := range op.Also {
		if status != http.StatusNoContent {
			doc.Responses[strconv.Itoa(status)].Content = usual.Content
		}
	}
}

// serveRaw adds an operation that a plain handler serves, and puts it into the specification.
// What a typed handler's types would say of it, more has to say.
func (a *Handler) serveRaw(op operation, contentType string, h http.HandlerFunc, more ...func(*huma.Operation)) {
	a.routes.handle(op.route, h)
	doc := a.document(op)
	doc.Path = strings.ReplaceAll(doc.Path, "...}", "}") // the mux's word for the rest of a path
	doc.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{contentType: {}}}
	for _, add := range more {
		add(&doc)
	}
	if !op.Hidden {
		a.spec.OpenAPI().AddOperation(&doc)
	}
}

// document writes the operation down for the specification.
func (a *Handler) document(op operation) huma.Operation {
	o := huma.Operation{
		Method: op.Method, Path: op.Path, OperationID: op.Name, Hidden: op.Hidden,
		Tags: []string{op.Tag}, Summary: op.Summary, Description: op.Description, DefaultStatus: op.Status,
		// The middlewares bound the body, in size and time, before huma sees it.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
		Responses: a.problems(op), Security: security(op.route),
	}
	if op.keyed() {
		o.Parameters = append(o.Parameters, idempotencyParam())
	}
	for status, meaning := range op.Also {
		o.Responses[strconv.Itoa(status)] = &huma.Response{Description: meaning}
	}
	return o
}

func security(rt route) []map[string][]string {
	if rt.Scope == "" {
		return []map[string][]string{}
	}
	return []map[string][]string{{"bearer": {}}, {"header": {}}}
}

func idempotencyParam() *huma.Param {
	most := maxKeyBytes
	return &huma.Param{
		Name: idempotencyHeader, In: "header",
		Description: "A key of your own, such as a random UUID. The same request sent again with it within 24 hours has no second effect and gets the first answer.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: &most},
	}
}

// problems lists every problem the operation may answer, one response for each status.
func (a *Handler) problems(op operation) map[string]*huma.Response {
	byStatus := map[int][]string{}
	for _, code := range op.problems() {
		status := code.Info().Status
		byStatus[status] = append(byStatus[status], string(code))
	}
	schema := a.spec.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problem](), true, "")
	content := map[string]*huma.MediaType{problemType: {Schema: schema}}
	responses := map[string]*huma.Response{}
	for status, codes := range byStatus {
		text := fmt.Sprintf("%s: %s", http.StatusText(status), strings.Join(codes, ", "))
		responses[strconv.Itoa(status)] = &huma.Response{Description: text, Content: content}
	}
	return responses
}

// keyed reports whether an Idempotency-Key means something to the operation.
func (op operation) keyed() bool {
	return op.Method == http.MethodPost && op.Scope != "" && !op.Raw
}

func (op operation) problems() []api.Code {
	all := slices.Concat(op.Problems, anyProblem)
	if op.Scope != "" {
		all = append(all, anyKeyed...)
	}
	if !safeMethod(op.Method) {
		all = append(all, anyUnsafe...)
	}
	if op.keyed() {
		all = append(all, anyPost...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
