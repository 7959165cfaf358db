package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/turn"
	"github.com/danielgtaylor/huma/v2"
)

// Engine is what the routes need of the engine.
type Engine interface {
	Ensure(ctx context.Context, r engine.Request) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error)
	Down(ctx context.Context, actor string) (stopped, failed int, err error)
	Sweep(ctx context.Context, o engine.SweepOptions) (engine.Sweep, error)
	Forget(ctx context.Context, host string, force bool, actor string) ([]engine.Forgotten, error)
	Look(ctx context.Context, s sandbox.Sandbox) (engine.Look, error)
	Ahead(s sandbox.Sandbox) []sandbox.Prospect
	Handle(tenant, id, actor string) *engine.Handle
	Check(ctx context.Context) []api.Check
	CheckTemplate(name string) error
}

// Options is what a Handler is made of.
type Options struct {
	Engine Engine
	Store  *store.DB
	Keys   Authenticator
	// Templates are those of the server; nil: the built-in ones.
	Templates *template.Registry
	// Open gives a handle on a sandbox that was just read. Without it, sandboxes cannot be used.
	Open func(s sandbox.Sandbox, actor string) Handle
	// Traffic is what a sandbox exchanged with the outside, nil where that is not counted.
	Traffic func(id string) *api.Traffic
	// Keeper has the versions of workspaces; nil: they are not saved here.
	Keeper *keeper.Keeper
	// Conversations and Turns are what prompts go to; nil: this server takes none.
	Conversations *conversation.Service
	Turns         *turn.Service
	// Saves says that workspaces can be saved here, for what people are told of their files.
	Saves bool
	// Saving looks whether the object store answers, for readiness; nil: nobody asks.
	Saving func(ctx context.Context) api.Check
	// Messages checks the message store, for readiness; nil: it is not checked.
	Messages func(ctx context.Context) []api.Check
	// Room refuses prompts when the server has no space for what turns write; nil: never.
	Room func() error
	// Disk checks the free space of the data directory, for readiness; nil: it is not checked.
	Disk func(ctx context.Context) api.Check

	Listen       string   // the address served on: a name that the Host header may have
	AllowedHosts []string // further ones

	MaxBodyBytes   int64         // zero: 1 MiB
	RequestTimeout time.Duration // zero: one minute
	DeleteWait     time.Duration // how long a delete waits to be done; zero: half of RequestTimeout
	ExecTimeout    time.Duration // how long a command may run that a request waits for; zero: one hour
	OrphanGrace    time.Duration // how long a sweep leaves an orphan alone; zero: the engine's default

	// ClaimTTL is how long a server that went silent keeps an Idempotency-Key; zero: 15 seconds.
	ClaimTTL time.Duration

	// Requests per second that one tenant may send, and at once. Zero: no limit.
	Rate, Burst int

	Version  string
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
	Redactor *telemetry.Redactor // knows what must not appear in an answer
}

// Handler serves all routes.
type Handler struct {
	Options
	routes   *routes
	projects *project.Service
	tools    *tool.Set
	servers  *tool.Servers // some of the tools are theirs
	spec     huma.API
	served   http.Handler
	draining atomic.Bool
	ending   context.Context // ends when the server is about to go
	end      context.CancelFunc

	bodyTime     time.Duration
	claimTime    time.Duration
	transferTime time.Duration
}

// New makes the handler for all routes.
func New(o Options) *Handler {
	a := &Handler{
		Options: o.withDefaults(), routes: newRoutes(), projects: project.New(o.Engine, o.Store),
		bodyTime: bodyTime, claimTime: cmp.Or(o.ClaimTTL, claimTime), transferTime: transferTime,
	}
	a.ending, a.end = context.WithCancel(context.Background())
	a.servers = tool.NewServers(a.Templates.MCPServers)
	a.tools = tool.Builtin().With(a.servers)
	a.spec = newSpec(a.routes, a.Version)
	a.addOps()
	a.addDown()
	a.addSweep()
	a.addHosts()
	a.addSandboxes()
	a.addProjects()
	a.addConversations()
	a.addKeys()
	a.addAccounts()
	a.addAgents()
	a.addTemplates()
	a.addDocs()
	a.served = a.wrap(a.routes.mux)
	return a
}

func (o Options) withDefaults() Options {
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 1<<20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Minute)
	o.DeleteWait = cmp.Or(o.DeleteWait, o.RequestTimeout/2)
	o.ExecTimeout = cmp.Or(o.ExecTimeout, time.Hour)
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = telemetry.NewMetrics(o.Version)
	}
	if o.Templates == nil {
		o.Templates = template.New(template.Options{})
	}
	if o.Redactor == nil {
		o.Redactor = new(telemetry.Redactor)
	}
	return o
}

// wrap puts the middlewares around the routes. Their order matters: what is cheap and needs no
// database refuses first, and nothing is read from a body before its sender is known.
func (a *Handler) wrap(routes http.Handler) http.Handler {
	var limit middleware
	if a.Rate > 0 {
		limit = newLimiter(a.Rate, a.Burst).limit
	}
	return chain(routes,
		begin(a.Log, a.clean),
		recoverPanic,
		identify,
		observe(a.Metrics),
		secure,
		guard(checkHeaderSize),
		guard(newHosts(a.Listen, a.AllowedHosts).check),
		guard(checkOrigin),
		guard(checkPath),
		guard(checkQuery),
		a.routes.find,
		healthOnly,
		limitBody(a.MaxBodyBytes, a.bodyTime),
		limitTime(a.RequestTimeout),
		authenticate(a.Keys),
		limit,
		guard(authorize),
		readBody(a.MaxBodyBytes),
		a.idempotent,
	)
}

// ServeHTTP answers one request.
func (a *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.served.ServeHTTP(w, r) }

// Drain makes /readyz say that the server is about to go. Requests are served as before, but streams
// and terminals end: those who watch attach again to whoever comes next.
func (a *Handler) Drain() {
	a.draining.Store(true)
	a.end()
}

func (a *Handler) clean(text string) string { return a.Redactor.String(text) }

// reply is an answer that is a body and nothing else.
type reply[T any] struct{ Body T }

// made is an answer to a POST that makes something.
type made[T any] struct {
	Status   int
	Location string `header:"Location" doc:"Where to find it"`
	Body     T
}

// Paging are the parameters of every list. It is exported because huma overlooks what is not.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many at most"`
	Cursor string `query:"cursor" maxLength:"1024" doc:"next_cursor of the page before"`
}
