package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// list is one thing that has pages: it reads one and says where the next begins.
type list struct {
	name string
	page func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error)
}

var allLists = []list{
	{"sandboxes", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Sandboxes(ctx, store.Filter{}, p)
		return next, err
	}},
	{"sandboxes by state", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Sandboxes(ctx, store.Filter{State: sandbox.Running}, p)
		return next, err
	}},
	{"sandboxes by owner kind", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Sandboxes(ctx, store.Filter{OwnerKind: sandbox.OwnerProject}, p)
		return next, err
	}},
	{"accounts", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Accounts(ctx, p)
		return next, err
	}},
	{"agents", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Agents(ctx, p)
		return next, err
	}},
	{"keys", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Keys(ctx, p)
		return next, err
	}},
}

// lists compares the last page of every list with its first.
func lists(ctx context.Context, p places) (figures []figure, err error) {
	for _, engine := range []string{"sqlite", "postgres"} {
		db, err := p.open(ctx, engine, "lists_"+engine, p.listed)
		if err != nil {
			return nil, err
		}
		if err := fillPeople(ctx, p, engine); err != nil {
			return nil, err
		}
		for _, l := range allLists {
			f, err := l.compare(ctx, db.In(tenant))
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", engine, l.name, err)
			}
			f.name = fmt.Sprintf("list %s, %s: last page to first", engine, l.name)
			figures = append(figures, f)
		}
		f, err := history(ctx, p, engine, db)
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
		if err := db.Close(); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// compare walks to the last full page once, then times it and the first in turn.
func (l list) compare(ctx context.Context, s store.Scope) (figure, error) {
	var last, at store.Position
	for first := true; first || !at.IsZero(); first = false {
		next, err := l.page(ctx, s, store.Page{Limit: 500, After: at})
		if err != nil {
			return figure{}, err
		}
		if !next.IsZero() {
			last = at
		}
		at = next
	}
	return alternate(func(deep bool) error {
		p := store.Page{Limit: 50}
		if deep {
			p.After = last
		}
		_, err := l.page(ctx, s, p)
		return err
	})
}

// alternate times the deep and the first page in turn.
func alternate(page func(deep bool) error) (figure, error) {
	const n = 200
	var times [2][]float64
	for i := range 2 * n {
		began := time.Now()
		if err := page(i%2 == 1); err != nil {
			return figure{}, err
		}
		times[i%2] = append(times[i%2], time.Since(began).Seconds())
	}
	return figure{ours: quantile(times[1], .5), peer: quantile(times[0], .5), unit: "s", n: n}, nil
}

// history is one sandbox's, with as many entries as the other lists have rows.
func history(ctx context.Context, p places, engine string, db *store.DB) (figure, error) {
	from, at := series(engine, p.listed)
	err := p.fill(ctx, engine, fmt.Sprintf(`
		insert into history (sandbox, seq, at, event, from_state, to_state, want, reason, actor, generation, incarnation, instance)
		select 'id-1', i, %s, 'ready', 'creating', 'running', 'running', '', '', 1, 1, '' from %s`, at, from))
	if err != nil {
		return figure{}, err
	}
	f, err := alternate(func(deep bool) error {
		before := int64(0)
		if deep {
			before = 60
		}
		_, _, err := db.In(tenant).History(ctx, "id-1", 50, before)
		return err
	})
	f.name = fmt.Sprintf("list %s, history: last page to first", engine)
	return f, err
}

func fillPeople(ctx context.Context, p places, engine string) error {
	from, at := series(engine, p.listed)
	hash := "cast(i as text)"
	if engine == "postgres" {
		hash = "decode(md5(cast(i as text)), 'hex')"
	}
	return p.fill(ctx, engine,
		fmt.Sprintf(`insert into accounts (id, tenant, name, email, created_at) select 'account-' || i, '%s', 'account ' || i, '', %s from %s`, tenant, at, from),
		fmt.Sprintf(`insert into agents (id, tenant, name, template, overrides, created_at, updated_at)
			select 'agent-' || i, '%s', 'agent ' || i, 'default', '{}', %s, %s from %s`, tenant, at, at, from),
		fmt.Sprintf(`insert into api_keys (id, tenant, account, label, prefix, hash, scopes, created_at)
			select 'key-' || i, '%s', '', '', '', %s, 'read', %s from %s`, tenant, hash, at, from))
}

// fill runs statements on the lists' database.
func (p places) fill(ctx context.Context, engine string, statements ...string) error {
	if engine == "postgres" {
		return fill(ctx, "pgx", p.url("lists_postgres"), statements...)
	}
	return fill(ctx, "sqlite", filepath.Join(p.dir, "lists_sqlite", "berth.db"), statements...)
}
