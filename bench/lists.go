package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// list is a list of the store that is read in pages. The function page reads one page and returns the position of the
// next.
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
		_, next, err := s.Accounts().List(ctx, p)
		return next, err
	}},
	{"agents", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Agents().List(ctx, p)
		return next, err
	}},
	{"keys", func(ctx context.Context, s store.Scope, p store.Page) (store.Position, error) {
		_, next, err := s.Keys().List(ctx, p)
		return next, err
	}},
}

// lists measures reads of the last page of every list. The peer is the first page.
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
			f, err := l.compare(ctx, fmt.Sprintf("list %s, %s: last page to first", engine, l.name), db.In(tenant))
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", engine, l.name, err)
			}
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

// compare finds the last full page of a list, and then measures reads of it and of the first page in turn.
func (l list) compare(ctx context.Context, name string, s store.Scope) (figure, error) {
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
	from := func(after store.Position) contender {
		return timed(func(ctx context.Context) error {
			_, err := l.page(ctx, s, store.Page{Limit: 50, After: after})
			return err
		})
	}
	return compare(ctx, name, pages, from(last), from(store.Position{}))
}

// pages is the number of reads of each page.
const pages = 200

// history measures pages of one sandbox's history, which has as many entries as the other lists have rows.
func history(ctx context.Context, p places, engine string, db *store.DB) (figure, error) {
	from, at := series(engine, p.listed)
	err := p.fill(ctx, engine, fmt.Sprintf(`
		insert into history (sandbox, seq, at, event, from_state, to_state, want, reason, actor, generation, incarnation, instance)
		select 'id-1', i, %s, 'ready', 'creating', 'running', 'running', '', '', 1, 1, '' from %s`, at, from))
	if err != nil {
		return figure{}, err
	}
	page := func(before int64) contender {
		return timed(func(ctx context.Context) error {
			_, _, err := db.In(tenant).History(ctx, "id-1", 50, before)
			return err
		})
	}
	return compare(ctx, fmt.Sprintf("list %s, history: last page to first", engine), pages, page(60), page(0))
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
	statements = append(statements, "analyze")
	if engine == "postgres" {
		return fill(ctx, "pgx", p.url("lists_postgres"), statements...)
	}
	return fill(ctx, "sqlite", filepath.Join(p.dir, "lists_sqlite", "berth.db"), statements...)
}
