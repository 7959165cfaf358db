package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Position is a place in a list: just after the item it was made from. The zero Position is the beginning.
type Position struct {
	CreatedAt time.Time
	ID        string
}

// IsZero reports whether the position is the beginning.
func (p Position) IsZero() bool { return p.ID == "" && p.CreatedAt.IsZero() }

// Page selects part of a list, newest first. If all pages are read one after the other, an item that exists during
// that time is in exactly one of them, even if others are added or removed.
type Page struct {
	Limit int // 0 means DefaultLimit; at most MaxLimit
	After Position
}

// Bounds of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

func clampLimit(n int) int {
	if n <= 0 {
		return DefaultLimit
	}
	return min(n, MaxLimit)
}

// listing reads a list page by page along an index on its first condition's columns, created_at and id.
type listing[T any] struct {
	columns, table string
	scan           func(scanner) (T, error)
	position       func(T) Position
	conditions     []string
	either         []string // alternatives; a row must match exactly one of them
	args           []any
}

// where adds a condition; %d in it is the number of its argument.
func (l *listing[T]) where(condition string, arg any) {
	l.args = append(l.args, arg)
	l.conditions = append(l.conditions, fmt.Sprintf(condition, len(l.args)))
}

// within keeps the rows of the account; empty: all rows.
func (l *listing[T]) within(account string) {
	if account != "" {
		l.where("account = $%d", account)
		l.conditions = append(l.conditions, "account <> ''") // matches the partial index
	}
}

// orWhere adds an alternative to either.
func (l *listing[T]) orWhere(condition string, arg any) {
	l.args = append(l.args, arg)
	l.either = append(l.either, fmt.Sprintf(condition, len(l.args)))
}

// read returns one page and the position of the next, zero if there is none.
func (l *listing[T]) read(ctx context.Context, r runner, page Page) (items []T, next Position, err error) {
	text, args := l.text(page)
	items, err = all(ctx, r, l.scan, text, args...)
	limit := clampLimit(page.Limit)
	if err != nil || len(items) <= limit {
		return items, Position{}, err
	}
	items = items[:limit]
	return items, l.position(items[limit-1]), nil
}

// text returns the query of one page plus one item. The additional item shows that there is a next page.
func (l *listing[T]) text(page Page) (string, []any) {
	args, conditions := slices.Clone(l.args), slices.Clone(l.conditions)
	if !page.After.IsZero() {
		args = append(args, at(page.After.CreatedAt), page.After.ID)
		conditions = append(conditions, fmt.Sprintf("(created_at, id) < ($%d, $%d)", len(args)-1, len(args)))
	}
	args = append(args, clampLimit(page.Limit)+1)
	inOrder := fmt.Sprintf(" order by created_at desc, id desc limit cast($%d as bigint)", len(args)) // see Due
	if len(l.either) == 0 {
		return l.selecting(conditions) + inOrder, args
	}
	// Each alternative is read along its own index, no further than the page.
	parts := make([]string, len(l.either))
	for i, condition := range l.either {
		parts[i] = "select * from (" + l.selecting(append(conditions[:len(conditions):len(conditions)], condition)) + inOrder + ") as part"
	}
	return "select * from (" + strings.Join(parts, " union all ") + ") as parts" + inOrder, args
}

func (l *listing[T]) selecting(conditions []string) string {
	text := fmt.Sprintf("select %s from %s", l.columns, l.table)
	if len(conditions) > 0 {
		text += " where " + strings.Join(conditions, " and ")
	}
	return text
}
