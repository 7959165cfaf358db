package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
)

// Operation describes one route for the OpenAPI document.
type Operation struct {
	exchange.Route
	Tag, Summary, Description string

	Status   int            // status of success; zero: 200 with a body, 204 without
	Also     map[int]string // further statuses of success with their descriptions; they have the same body
	Problems []api.Code     // possible problems besides the common ones below
}

// The common problems: of every route, of routes with a key, of routes that change something, and of POSTs with a
// key.
var (
	anyProblem = []api.Code{api.CodeInvalidRequest, api.CodeInvalidPath, api.CodeWrongHostHeader, api.CodeHeadersTooLarge,
		api.CodeInternal, api.CodeStoreUnavailable, api.CodeServerDiskFull, api.CodeShuttingDown, api.CodeTooManyConns, api.CodeTimeout}
	anyKeyed  = []api.Code{api.CodeUnauthenticated, api.CodeForbidden, api.CodeRateLimited}
	anyUnsafe = []api.Code{api.CodeForeignOrigin, api.CodeBodyTooLarge, api.CodeUnsupportedMedia, api.CodeBodyTimeout}
	anyPost   = []api.Code{api.CodeKeyReused, api.CodeKeyInFlight, api.CodeInvalidKey}
)

// tags are the groups of operations, in the order the documentation shows them.
var tags = []*huma.Tag{
	{Name: "Sandboxes", Description: "A sandbox is a durable workspace with at most one running instance."},
	{Name: "Projects", Description: "Each project has exactly one sandbox, which is created on first use."},
	{Name: "Conversations", Description: "Prompts to an agent and its answers, in one sandbox. Each prompt starts a turn, which outlives the request that started it."},
	{Name: "Threads", Description: "A thread is a conversation with a key that a chat system chose, such as a Slack thread. Each thread has exactly one sandbox."},
	{Name: "Events", Description: "The stream of a tenant's changes, to be watched in the place of polling."},
	{Name: "Slack", Description: "The Slack workspaces in which the agents of the tenant answer. All routes require the scope admin."},
	{Name: "Keys", Description: "API keys of the tenant. All routes but one require the scope admin."},
	{Name: "Accounts", Description: "The users and services of the tenant. Changes require the scope admin."},
	{Name: "Agents", Description: "An agent is a template with the tenant's own overrides. Changes require the scope admin."},
	{Name: "Secrets", Description: "Values that the tenant's sandboxes get as variables, where their template names them. Values are never returned. Changes require the scope admin."},
	{Name: "Templates", Description: "A template defines a sandbox's image, limits and agent. Templates are part of the server's configuration."},
	{Name: "Operations", Description: "Health, metrics and maintenance of the server."},
}

// NewSpec makes an empty document. It uses the typed handlers and the validation of huma.
func NewSpec(rs *exchange.Routes, version, advertised string) *Spec {
	c := huma.DefaultConfig("Berth", version)
	c.Info.Description = "Sandboxes for AI agents: one per owner, created on first use, restored with all files."
	c.Tags = tags
	c.Servers = []*huma.Server{{URL: "/", Description: "The server that this document was read from"}}
	if advertised != "" {
		c.Servers = append(c.Servers, &huma.Server{URL: advertised, Description: "The server's advertised address"})
	}
	c.CreateHooks = nil // the default hooks would add $schema to every body
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key; create one with 'berth keys create'."},
		"header": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "The same key, for clients that cannot set Authorization."},
	}
	spec := humago.New(rs.Mux, c)
	// A problem that is a part of an answer has the same schema as a problem that is the whole answer.
	spec.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[api.Problem](), reflect.TypeFor[exchange.Problem]())
	return &Spec{Routes: rs, API: spec}
}

// Serve adds an operation whose handler takes and returns Go values. An error of the handler is answered as a
// problem.
func Serve[I, O any](a *Spec, op Operation, handle func(context.Context, *I) (*O, error)) {
	a.Routes.Add(op.Route)
	doc := a.document(op)
	huma.Register(a.API, doc, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, exchange.ProblemOf(ctx, err)
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

// ServeRaw adds an operation that a plain handler serves, and adds it to the OpenAPI document. The functions in more
// describe the parameters and bodies, which huma cannot derive from a plain handler.
func (a *Spec) ServeRaw(op Operation, contentType string, h http.HandlerFunc, more ...func(*huma.Operation)) {
	a.Routes.Handle(op.Route, h)
	doc := a.document(op)
	doc.Path = strings.ReplaceAll(doc.Path, "...}", "}") // the mux's syntax for the rest of a path
	doc.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{contentType: {}}}
	for _, add := range more {
		add(&doc)
	}
	if !op.Hidden {
		a.API.OpenAPI().AddOperation(&doc)
	}
}

// document returns the operation for the OpenAPI document.
func (a *Spec) document(op Operation) huma.Operation {
	o := huma.Operation{
		Method: op.Method, Path: op.Path, OperationID: op.Name, Hidden: op.Hidden,
		Tags: []string{op.Tag}, Summary: op.Summary, Description: op.Description, DefaultStatus: op.Status,
		// The middlewares have already limited the body's size and time.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
		Responses: a.problems(op), Security: security(op.Route),
	}
	if op.keyed() {
		o.Parameters = append(o.Parameters, idempotencyParam())
	}
	for status, meaning := range op.Also {
		o.Responses[strconv.Itoa(status)] = &huma.Response{Description: meaning}
	}
	return o
}

func security(rt exchange.Route) []map[string][]string {
	if rt.Scope == "" {
		return []map[string][]string{}
	}
	return []map[string][]string{{"bearer": {}}, {"header": {}}}
}

func idempotencyParam() *huma.Param {
	most := middleware.MaxKeyBytes
	return &huma.Param{
		Name: middleware.IdempotencyHeader, In: "header",
		Description: "A unique key that the client chose, such as a random UUID. A repeated request with the same key within 24 hours has no second effect and gets the first answer.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: &most},
	}
}

// problems returns a response for each status, with the problem codes that the operation may answer.
func (a *Spec) problems(op Operation) map[string]*huma.Response {
	byStatus := map[int][]string{}
	for _, code := range op.problems() {
		status := code.Info().Status
		byStatus[status] = append(byStatus[status], string(code))
	}
	schema := a.API.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[exchange.Problem](), true, "")
	content := map[string]*huma.MediaType{exchange.ProblemType: {Schema: schema}}
	responses := map[string]*huma.Response{}
	for status, codes := range byStatus {
		text := fmt.Sprintf("%s: %s", http.StatusText(status), strings.Join(codes, ", "))
		responses[strconv.Itoa(status)] = &huma.Response{Description: text, Content: content}
	}
	return responses
}

// keyed reports whether the operation accepts an Idempotency-Key.
func (op Operation) keyed() bool {
	return op.Method == http.MethodPost && op.Scope != "" && !op.Raw
}

func (op Operation) problems() []api.Code {
	all := slices.Concat(op.Problems, anyProblem)
	if op.Scope != "" {
		all = append(all, anyKeyed...)
	}
	if !exchange.SafeMethod(op.Method) {
		all = append(all, anyUnsafe...)
	}
	if op.keyed() {
		all = append(all, anyPost...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
