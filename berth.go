// Package berth embeds Berth in a Go program: sandboxes for AI agents, with their files, conversations and
// lifecycle hooks, without the HTTP server.
//
// [Open] opens the stores and starts the background work. [Berth.Sandbox] loads a sandbox or creates it, starts it
// and returns a [Sandbox] with the operations on it:
//
//	b, err := berth.Open(ctx, berth.Config{DataDir: "/var/lib/myapp/berth"})
//	...
//	defer b.Close()
//	s, err := b.Sandbox(ctx, id, berth.Account{ID: user})
//	...
//	for event, err := range s.ExecuteAgentStream(ctx, berth.Prompt{Text: "write notes.txt: hello"}) {
//		...
//	}
//
// By default, all data is kept in SQLite and a directory; [Config] can name PostgreSQL, S3 and DynamoDB instead.
// Templates and hooks may be written in Go ([Template], [Hook]). Errors match the package's sentinel errors with
// [errors.Is] and carry a stable code ([Error]).
//
// # The helper program
//
// The first process of a local sandbox is a helper. By default it is the embedding program itself, started a second
// time under another name. Importing this package is enough for that; the program's main does not run.
// The program must be a static program without cgo (CGO_ENABLED=0): the helper changes users and namespaces, which
// a C runtime does not allow. [Open] refuses a program with cgo.
//
// Alternatively, [Config.GuestPath] names a berth binary of the same version as the helper. Then the program may use
// cgo, and its package-level initialization does not run in each sandbox.
package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Config configures [Open]. Only DataDir is required.
type Config struct {
	// DataDir is the directory of the database, of local sandboxes and of saved workspaces. One process uses it
	// at a time.
	DataDir string
	// DatabaseURL is the address of a PostgreSQL database (postgres://…); empty: SQLite in DataDir.
	DatabaseURL string
	// ObjectStore is the address of the store for versions of workspaces: s3://bucket/prefix, or a directory; empty:
	// a directory in DataDir. With "none" no versions are saved.
	ObjectStore string
	// MessageStore is the address of the store for messages: dynamodb://table; empty: the database.
	MessageStore string

	// Driver is the driver of sandboxes that name none; empty: local.
	Driver string
	// DefaultTemplate is the template of sandboxes that name none; empty: default.
	DefaultTemplate string
	// Templates are added to the built-in templates and to the templates of File.
	Templates []Template

	// File is a TOML file with more settings and templates. The fields here take precedence.
	File string
	// Settings are further settings by their key in File. Empty values are ignored.
	Settings map[string]string

	// GuestPath is the path of a berth binary to use as the helper in local sandboxes; empty: this program.
	GuestPath string
	// Log receives the log, one line per record, without known secrets; nil: no log.
	Log io.Writer
}

// Berth runs sandboxes on this machine. Open returns it. It is safe for concurrent use.
type Berth struct {
	system  *app.System
	open    context.Context // ends with Close, or if the background work fails
	stop    context.CancelFunc
	stopped chan struct{}
	closing sync.Once

	mu     sync.Mutex
	err    error // the error of all further calls; nil: b can be used
	failed error // the error that ended the background work; nil: none
}

// Open opens the stores that the configuration names, migrates the database if needed, and starts the background
// work: timers, saves, turns and recovery. The caller must call Close when it no longer needs the Berth.
//
// Open returns [ErrInvalidConfig] if the configuration cannot be used.
func Open(ctx context.Context, c Config) (*Berth, error) {
	if err := checkContext(ctx); err != nil {
		return nil, wrap("open berth", err)
	}
	o, err := c.options()
	if err != nil {
		return nil, wrapAs("open berth", err, ErrInvalidConfig)
	}
	system, err := app.Open(ctx, o)
	if err != nil {
		return nil, wrap("open berth", err)
	}
	background, stop := context.WithCancel(context.Background())
	b := &Berth{system: system, open: background, stop: stop, stopped: make(chan struct{})}
	go b.run()
	return b, nil
}

// Migrate updates the database to the schema of this version and creates the table of the message store, as 'berth
// migrate' does. It returns a report of the changes. [Open] migrates the database by itself; only the table of a
// message store in DynamoDB needs Migrate.
func Migrate(ctx context.Context, c Config) (report string, err error) {
	if err := checkContext(ctx); err != nil {
		return "", wrap("migrate", err)
	}
	loaded, err := c.load()
	if err != nil {
		return "", wrapAs("migrate", err, ErrInvalidConfig)
	}
	report, err = app.Migrate(ctx, loaded)
	return report, wrap("migrate", err)
}

func (c Config) options() (app.Options, error) {
	loaded, err := c.load()
	if err != nil {
		return app.Options{}, err
	}
	o := app.Options{Config: loaded, Exe: c.GuestPath, Log: c.Log}
	if o.Log == nil {
		o.Log = io.Discard
	}
	names := map[string]bool{}
	for _, t := range c.Templates {
		if names[t.Name] {
			return app.Options{}, fault.Errorf("", api.CodeInvalidConfig, "Config.Templates has two templates with the name %q", t.Name)
		}
		names[t.Name] = true
		o.Templates = append(o.Templates, t.convert())
	}
	return o, nil
}

// load checks c and returns all settings: the settings of c, of its file, and the defaults.
func (c Config) load() (*config.Loaded, error) {
	if c.DataDir == "" {
		return nil, fault.Errorf("", api.CodeInvalidConfig, "Config.DataDir is empty")
	}
	values := map[string]string{}
	maps.Copy(values, c.Settings)
	for key, value := range map[string]string{
		"data_dir": c.DataDir, "database_url": c.DatabaseURL, "object_store": c.ObjectStore, "message_store": c.MessageStore,
		"default_driver": c.Driver, "default_template": c.DefaultTemplate,
	} {
		if value != "" {
			values[key] = value
		}
	}
	return config.Load(config.Sources{File: c.File, Values: values})
}

// run runs the background work until Close, or until a newer version of Berth has migrated the database.
func (b *Berth) run() {
	defer close(b.stopped)
	if err := b.system.Run(b.open); err != nil {
		defer b.stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.failed = err
		if b.err == nil {
			b.err = fault.Errorf("", api.CodeShuttingDown, "%w: %w", ErrClosed, err)
		}
	}
}

// Close ends the background work and all reading of events, waits for the background work to end, and releases the
// stores. All other calls should have returned before. Sandboxes keep running, and the next process that opens the
// same data continues their turns. If the background work had failed before, Close returns its error. Further calls
// of Close wait for the first call and return nil.
func (b *Berth) Close() error {
	var err error
	b.closing.Do(func() { err = b.close() })
	return err
}

func (b *Berth) close() error {
	b.mu.Lock()
	b.err = errWasClosed
	b.mu.Unlock()
	b.stop()
	<-b.stopped
	return wrap("close berth", errors.Join(b.failed, b.system.Close()))
}

var errWasClosed error = fault.Errorf("", api.CodeShuttingDown, "%w: Close was called", ErrClosed)

// usable returns nil while b can be used, and the error of all further calls after that.
func (b *Berth) usable() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// checkContext refuses a nil context and a context that has ended. A nil context would cause a panic in code that
// holds locks.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return &fault.Error{Code: api.CodeInvalidRequest, Err: errors.New("the context is nil"), Hint: "Pass the caller's context, or context.Background()."}
	}
	return ctx.Err()
}

// Account is the user that a sandbox belongs to. Other accounts cannot open the sandbox.
type Account struct {
	// ID names the account: 1 to 255 bytes of UTF-8 text of the program's choice, such as the id of a user.
	ID string
	// Tenant is the tenant of the account; empty: default. Tenants share no data. A tenant is created when it is
	// first used.
	Tenant string
}

// enter checks that b is open and that the account can be used, and returns the part of the database that the
// account may use.
func (b *Berth) enter(ctx context.Context, a *Account) (store.Scope, error) {
	if err := cmp.Or(b.usable(), checkContext(ctx)); err != nil {
		return store.Scope{}, err
	}
	a.Tenant = cmp.Or(a.Tenant, string(auth.DefaultTenant))
	if a.ID == "" || len(a.ID) > maxAccountID || !utf8.ValidString(a.ID) || strings.ContainsFunc(a.ID, unicode.IsControl) {
		return store.Scope{}, fault.Errorf("check account", api.CodeInvalidRequest, "%w: its id must be 1 to %d bytes of text", ErrInvalidAccount, maxAccountID)
	}
	if err := sandbox.CheckName(a.Tenant); err != nil {
		return store.Scope{}, fmt.Errorf("%w: tenant: %w", ErrInvalidAccount, err)
	}
	if a.Tenant != string(auth.DefaultTenant) {
		if err := b.system.Store().Tenants().Ensure(ctx, store.TenantID(a.Tenant), a.Tenant); err != nil {
			return store.Scope{}, err
		}
	}
	return b.system.Store().In(store.TenantID(a.Tenant)).Within(a.ID), nil
}

const maxAccountID = 255

// NewID returns a new id for a sandbox or a conversation: a UUID. UUIDs of NewID sort by creation time.
func NewID() string { return store.NewID() }
