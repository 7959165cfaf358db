package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/store"
)

// home is a server's data directory and its database.
type home struct {
	engine string // sqlite or postgres
	dir    string
	url    string // URL of PostgreSQL; empty for SQLite
}

// crowd describes running but unused sandboxes of projects.
type crowd struct {
	n int
	// watched sandboxes have an instance at the fake driver, as if a server had made it, and the server checks them
	// regularly. Other sandboxes are only rows: their driver is unknown to the server, and they are never due.
	watched bool
}

// makeHome makes a server's data directory and its database, and fills them with a crowd.
func (p places) makeHome(ctx context.Context, engine, name string, c crowd) (home, error) {
	h := home{engine: engine, dir: filepath.Join(p.dir, name)}
	opts := store.Options{DataDir: h.dir}
	if engine == "postgres" {
		if err := p.exec(ctx, "create database "+name); err != nil {
			return h, err
		}
		h.url = p.url(name)
		opts = store.Options{DatabaseURL: h.url}
	}
	if _, err := store.Migrate(ctx, opts); err != nil {
		return h, err
	}
	instances, err := h.instances(ctx, c)
	if err != nil {
		return h, err
	}
	statements := h.record(instances, c.watched)
	if engine == "postgres" {
		statements = append(statements, "analyze") // PostgreSQL would do this later by itself, SQLite never does
	}
	raw, source := h.source()
	return h, fill(ctx, raw, source, statements...)
}

func (h home) instances(ctx context.Context, c crowd) (made []driver.Status, err error) {
	d, err := fake.New(filepath.Join(h.dir, "fake"))
	if err != nil {
		return nil, err
	}
	for range c.n {
		st := driver.Status{Key: driver.Key{Sandbox: store.NewID(), Incarnation: 1}}
		st.ID = driver.ID(st.Key.Sandbox)
		if c.watched {
			if st, err = d.Create(ctx, driver.Spec{Key: st.Key, Tenant: defaultTenant}); err != nil {
				return nil, err
			}
		}
		made = append(made, st)
	}
	return made, nil
}

// defaultTenant is the tenant of the server's first key.
const defaultTenant = "default"

// source returns the arguments of sql.Open for direct access to the database.
func (h home) source() (driver, source string) {
	if h.engine == "postgres" {
		return "pgx", h.url
	}
	return "sqlite", filepath.Join(h.dir, "berth.db")
}

// at returns a time as an SQL value for the engine.
func (h home) at(t time.Time) string {
	if h.engine == "postgres" {
		return "'" + t.UTC().Format(time.RFC3339Nano) + "'"
	}
	return fmt.Sprint(t.UnixMicro())
}

// record returns SQL statements that insert the sandboxes of the instances. Watched sandboxes are due at times spread
// over the next minute.
func (h home) record(instances []driver.Status, watched bool) (statements []string) {
	const batch = 500
	now := time.Now()
	long := h.at(now.Add(-time.Hour))
	for from := 0; from < len(instances); from += batch {
		var rows []string
		for i, st := range instances[from:min(from+batch, len(instances))] {
			kind, due := "nowhere", "null"
			if watched {
				kind, due = "fake", h.at(now.Add(time.Duration(from+i)*time.Minute/time.Duration(len(instances))))
			}
			rows = append(rows, fmt.Sprintf(`('%[1]s', '%[2]s', 'project', '%[1]s', '', 'default', '%[3]s', 'standard', '{}', '{}', '',
				'running', 'running', 1, 1, '%[4]s', '', 0, 1, %[5]s, %[5]s, %[5]s, %[5]s, %[6]s)`, st.Key.Sandbox, defaultTenant, kind, st.ID, long, due))
		}
		statements = append(statements, `
			insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, host,
				state, want, generation, incarnation, instance, synced_version, synced_incarnation, changes, created_at, active_at, started_at, probed_at, due_at)
			values `+strings.Join(rows, ",\n"))
	}
	return statements
}

// remove removes the server's data directory. A PostgreSQL database is removed with its server.
func (h home) remove() error { return os.RemoveAll(h.dir) }
