package pgtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Database is the database of one test.
type Database struct {
	Name string
	URL  string // postgres://user:password@127.0.0.1:port/name
}

// New makes an empty database for t on the process's shared server and drops it when t ends.
func New(t testing.TB) *Database {
	t.Helper()
	return empty.New(t)
}

// Template is a database that is prepared once per process and cloned for each test.
type Template struct {
	prepare func(ctx context.Context, url string) error
	once    sync.Once
	name    string
	err     error
}

// NewTemplate returns a template that prepare fills on first use. The function prepare must close its connections:
// PostgreSQL does not clone a database that is in use.
func NewTemplate(prepare func(ctx context.Context, url string) error) *Template {
	return &Template{prepare: prepare}
}

var empty = NewTemplate(func(context.Context, string) error { return nil })

// New clones the template for t and drops the clone when t ends.
func (p *Template) New(t testing.TB) *Database {
	t.Helper()
	c, err := sharedCluster()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
		return nil
	}
	p.once.Do(func() { p.err = p.build(c) })
	if p.err != nil {
		t.Fatalf("pgtest: prepare template: %v", p.err)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name := nextName("test")
	if err := c.Exec(ctx, fmt.Sprintf("create database %s template %s", name, p.name)); err != nil {
		t.Fatalf("pgtest: make database: %v", err)
		return nil
	}
	t.Cleanup(func() { c.drop(t, name) })
	return &Database{Name: name, URL: c.URL(name)}
}

// build makes and prepares the template's database. It uses no test's context, because all tests share the result.
func (p *Template) build(c *Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p.name = nextName("template")
	if err := c.Exec(ctx, "create database "+p.name); err != nil {
		return err
	}
	return p.prepare(ctx, c.URL(p.name))
}

// drop removes a database. It uses force, because a test may end with open connections.
func (c *Cluster) drop(t testing.TB, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.Exec(ctx, fmt.Sprintf("drop database if exists %s with (force)", name)); err != nil {
		t.Logf("pgtest: drop database: %v", err)
	}
}

var names atomic.Int64

func nextName(kind string) string { return fmt.Sprintf("%s_%d", kind, names.Add(1)) }

// shared is the server behind New. It starts with the first test that needs it.
var shared struct {
	sync.Mutex
	started bool
	cluster *Cluster
	err     error
}

func sharedCluster() (*Cluster, error) {
	shared.Lock()
	defer shared.Unlock()
	if !shared.started {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		shared.started = true
		shared.cluster, shared.err = Start(ctx, Options{})
	}
	return shared.cluster, shared.err
}

// Main runs a package's tests and then stops the shared server, if any test started it:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// Without Main the server also ends, shortly after the process.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Close(); err != nil {
		fmt.Println("pgtest:", err)
		return max(code, 1)
	}
	return code
}
