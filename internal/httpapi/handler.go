package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/console"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/conversations"
	"github.com/berthdev/berth/internal/httpapi/docs"
	"github.com/berthdev/berth/internal/httpapi/events"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/execs"
	"github.com/berthdev/berth/internal/httpapi/login"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/ops"
	"github.com/berthdev/berth/internal/httpapi/ports"
	"github.com/berthdev/berth/internal/httpapi/projects"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/sandboxes"
	"github.com/berthdev/berth/internal/httpapi/sandboxfiles"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/httpapi/tenants"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/workspacesync"
	"github.com/berthdev/berth/web"
)

// Options configure a Handler.
type Options struct {
	Engine access.Engine
	Store  *store.DB
	Keys   middleware.Authenticator
	// Roots are the root secrets, the newest first, which sign cookies and URLs; nil: browsers cannot sign in, and no
	// URLs are signed.
	Roots []auth.Secret
	// Templates has the server's templates; nil: the built-in ones.
	Templates *template.Registry
	// Traffic returns the network traffic of a sandbox; nil: traffic is not counted.
	Traffic func(id string) *api.Traffic
	// Syncer saves and reads the versions of workspaces; nil: this server does not save workspaces.
	Syncer *workspacesync.Syncer
	// Chat keeps conversations and runs turns; nil: this server takes no prompts.
	Chat *chat.Service
	// ThreadsOff makes the routes of threads answer with runtime_disabled.
	ThreadsOff bool
	// Slack connects Slack workspaces; nil: this server has no threads.
	Slack tenants.Slack
	// Saves reports whether workspaces can be saved here; explanations depend on it.
	Saves bool
	// Saving checks whether the object store answers, for readiness; nil: it is not checked.
	Saving func(ctx context.Context) api.Check
	// Messages checks the message store, for readiness; nil: it is not checked.
	Messages func(ctx context.Context) []api.Check
	// Room returns an error if there is no disk space for new turns; prompts are then refused. nil: no check.
	Room func() error
	// Disk checks the free space of the data directory, for readiness; nil: it is not checked.
	Disk func(ctx context.Context) api.Check
	// Secrets checks which root secrets are needed, for readiness; nil: it is not checked.
	Secrets func(ctx context.Context) api.Check

	Listen       string   // the address that the server listens on; the Host header may name it
	AllowedHosts []string // further names that the Host header may have
	AdvertiseURL string   // the server's URL for other machines; empty: none
	// PreviewDomain is the domain whose subdomains serve ports of sandboxes; empty: none.
	PreviewDomain string

	MaxBodyBytes   int64         // zero: 1 MiB
	RequestTimeout time.Duration // zero: one minute
	DeleteWait     time.Duration // maximum wait of a request for the end of its delete; zero: half of RequestTimeout
	ExecTimeout    time.Duration // time limit of a command whose request waits for it; zero: one hour
	// TransferTimeout is the maximum time without progress of an upload or a download; zero: one minute.
	TransferTimeout time.Duration
	OrphanGrace     time.Duration // minimum age of an orphan that a sweep ends; zero: the engine's default

	// ClaimTTL is the time after which the claim of a crashed server on an Idempotency-Key expires; zero: 15 seconds.
	ClaimTTL time.Duration

	// Rate and Burst are the numbers of requests that one tenant may send per second and at once. Zero: no limit.
	Rate, Burst int

	Version  string
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
	Redactor *telemetry.Redactor // removes secrets from answers
}

// Handler serves all routes.
type Handler struct {
	Options
	routes   *exchange.Routes
	hosts    middleware.Hosts
	sessions *exchange.Sessions
	claims   *middleware.Claims
	known    []middleware.Credential // the credentials that routes may accept
	browsers *auth.Sessions          // nil: browsers cannot sign in
	previews *ports.Origins
	servers  *tool.Servers // MCP servers; their tools are tools of projects, too
	served   http.Handler
	bodyTime time.Duration // time limit for sending a body
	draining atomic.Bool
	ending   context.Context // ends when the server drains
	end      context.CancelFunc
}

// New makes the handler for all routes.
func New(o Options) *Handler {
	a := &Handler{
		Options: o.withDefaults(), routes: exchange.NewRoutes(), hosts: middleware.NewHosts(o.Listen, o.AllowedHosts),
		bodyTime: middleware.BodyTime, claims: middleware.NewClaims(o.Store, o.ClaimTTL),
	}
	a.sessions = &exchange.Sessions{Log: a.Log}
	if a.Store != nil {
		a.sessions.Keys = a.Store.APIKeys()
	}
	a.known = []middleware.Credential{middleware.ByKey(a.Keys)}
	if len(a.Roots) > 0 {
		a.browsers = auth.NewSessions(a.Store.APIKeys(), a.Roots[0], a.Roots[1:]...)
		a.known = append(a.known, middleware.BySession(a.browsers))
	}
	a.ending, a.end = context.WithCancel(context.Background())
	a.addOrigins()
	a.servers = tool.NewServers(a.Templates.MCPServers)
	a.addRoutes()
	a.served = a.wrap(a.routes.Mux)
	return a
}

// addOrigins adds the hosts of the sandboxes' ports.
func (a *Handler) addOrigins() {
	o := ports.OriginOptions{
		Domain: a.PreviewDomain, AdvertiseURL: a.AdvertiseURL, Keys: a.known[0], Sessions: a.sessions, Ending: a.ending,
		RequestTimeout: a.RequestTimeout, TransferTimeout: a.TransferTimeout,
	}
	if len(a.Roots) > 0 {
		o.URLs = auth.NewURLs(a.Store.APIKeys().URLs(), a.Roots[0], a.Roots[1:]...)
		a.sessions.URLs, a.sessions.OnEnd = a.Store.APIKeys().URLs(), o.URLs.Forget
		a.known = append([]middleware.Credential{middleware.ByTerminalURL(o.URLs)}, a.known...)
	}
	a.previews = ports.NewOrigins(a.boxes(), o)
}

func (a *Handler) boxes() *access.Sandboxes {
	return &access.Sandboxes{Engine: a.Engine, Store: a.Store, Chat: a.Chat, Syncer: a.Syncer, DeleteWait: a.DeleteWait}
}

// addRoutes adds the routes of all resources. The documentation comes last, because it holds the finished document.
func (a *Handler) addRoutes() {
	spec := rest.NewSpec(a.routes, a.Version, a.AdvertiseURL)
	box := a.boxes()
	ops.Add(spec, ops.Options{
		Engine: a.Engine, Store: a.Store, Templates: a.Templates, Metrics: a.Metrics, Redactor: a.Redactor, Log: a.Log, Version: a.Version,
		Draining: &a.draining, OrphanGrace: a.OrphanGrace, Saving: a.Saving, Messages: a.Messages, Disk: a.Disk, Secrets: a.Secrets,
	})
	talks := conversations.Options{
		Claims: a.claims, Ending: a.ending, Room: a.Room, Redactor: a.Redactor, ThreadsOff: a.ThreadsOff,
		RequestTimeout: a.RequestTimeout, TransferTimeout: a.TransferTimeout,
	}
	terminals := execs.Terminals{Sandboxes: box, URLs: a.previews.URLs, Sessions: a.sessions, AdvertiseURL: a.AdvertiseURL}
	for base, hidden := range map[string]bool{exchange.SandboxesPath: false, "/api/v1/sandbox": true} { // older clients use /api/v1/sandbox
		op := access.Operations(base, hidden)
		sandboxes.Add(spec, box, op, sandboxes.Options{Saves: a.Saves, Traffic: a.Traffic})
		execs.Add(spec, box, op, execs.Options{Claims: a.claims, Ending: a.ending, ExecTimeout: a.ExecTimeout, RequestTimeout: a.RequestTimeout, Terminals: terminals})
		ports.Add(spec, box, op, ports.Options{AdvertiseURL: a.AdvertiseURL, Hosts: a.hosts, Ending: a.ending, TransferTimeout: a.TransferTimeout, Origins: a.previews})
		sandboxfiles.Add(spec, box, op, sandboxfiles.Options{TransferTimeout: a.TransferTimeout})
		conversations.AddDefault(spec, box, op, talks)
	}
	conversations.AddDefault(spec, box, access.Operations("/sandboxes", true), talks) // even older clients use /sandboxes
	projects.Add(spec, box, projects.Options{
		Projects: project.New(a.Engine, a.Store), Tools: tool.Builtin().With(a.servers), RequestTimeout: a.RequestTimeout, Version: a.Version,
		Terminals: terminals,
	})
	conversations.Add(spec, box, talks)
	events.Add(spec, box, a.ending)
	tenants.Add(spec, box, tenants.Options{Sessions: a.sessions, Redactor: a.Redactor, Templates: a.Templates, Slack: a.Slack})
	if a.browsers != nil {
		login.Add(spec, login.Options{Keys: a.Keys, Sessions: a.browsers, Store: a.Store, AdvertiseURL: a.AdvertiseURL})
	}
	docs.Add(spec)
	pages := console.New(web.Files())
	a.routes.Handle(exchange.Route{Method: http.MethodGet, Path: "/{$}", Name: "console", Hidden: true}, pages.Index)
	a.routes.Handle(exchange.Route{Method: http.MethodGet, Path: "/assets/{name}", Name: "console-asset", Hidden: true, Quiet: true}, pages.Asset)
}

func (o Options) withDefaults() Options {
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 1<<20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Minute)
	o.DeleteWait = cmp.Or(o.DeleteWait, o.RequestTimeout/2)
	o.ExecTimeout = cmp.Or(o.ExecTimeout, time.Hour)
	o.TransferTimeout = cmp.Or(o.TransferTimeout, stream.TransferTime)
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

// wrap puts the middlewares around the routes. Their order matters: cheap checks without a database come first, and
// no body is read before its sender is authenticated.
func (a *Handler) wrap(routes http.Handler) http.Handler {
	var limit middleware.Middleware
	if a.Rate > 0 {
		limit = middleware.NewLimiter(a.Rate, a.Burst).Limit
	}
	return middleware.Chain(routes,
		middleware.Begin(a.Log, a.Redactor.String),
		middleware.RecoverPanic,
		middleware.TimeBody(a.bodyTime),
		middleware.Identify,
		middleware.Observe(a.Metrics),
		a.previews.Serve,
		middleware.SecurityHeaders,
		middleware.Guard(middleware.CheckHeaderSize),
		middleware.Guard(a.hosts.Check),
		middleware.Guard(middleware.CheckOrigin),
		middleware.Guard(middleware.CheckPath),
		middleware.Guard(middleware.CheckQuery),
		a.routes.Find,
		middleware.HealthOnly,
		middleware.LimitBody(a.MaxBodyBytes),
		middleware.LimitTime(a.RequestTimeout),
		middleware.Authenticate(a.known, a.sessions),
		limit,
		middleware.Guard(middleware.Authorize),
		middleware.ReadBody(a.MaxBodyBytes),
		a.claims.Idempotent,
	)
}

// SignInLink returns a link that signs a browser in once with a key, or nothing if browsers cannot sign in.
func (a *Handler) SignInLink(ctx context.Context, key string) (api.SignInLink, error) {
	if a.browsers == nil {
		return api.SignInLink{}, nil
	}
	who, err := a.Keys.Authenticate(ctx, key)
	if err != nil {
		return api.SignInLink{}, err
	}
	return login.SignInLink(a.browsers, who), nil
}

// ServeHTTP answers one request.
func (a *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.served.ServeHTTP(w, r) }

// Drain makes /readyz report that the server is about to stop. Requests are served as before, but streams
// and terminals end: their clients attach again to the next server.
func (a *Handler) Drain() {
	a.draining.Store(true)
	a.end()
}
