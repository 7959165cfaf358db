package cli

import (
	"fmt"
	"iter"
)

// listing says how the items of one list are shown.
type listing[T any] struct {
	columns []string
	row     func(T) []cell
	id      func(T) string // what -q prints
	empty   string         // said to a person when there is nothing
	limit   int            // 0: all
}

// printer is one form of output: ids, JSON or a table.
type printer[T any] struct {
	add func(T) error
	end func() error
}

// show prints the items as they come. What came before an error is printed too.
func show[T any](f *frame, items iter.Seq2[T, error], l listing[T]) error {
	p, n := l.printer(f), 0
	for item, err := range items {
		if err != nil {
			if n > 0 && !f.json {
				_ = p.end()
			}
			return err
		}
		if err := p.add(item); err != nil {
			return err
		}
		if n++; n == l.limit {
			break
		}
	}
	if n == 0 && l.empty != "" && !f.json {
		f.notef("%s", l.empty)
		return nil
	}
	return p.end()
}

// these are items that are all there already, or the error instead of them.
func these[T any](items []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

func (l listing[T]) printer(f *frame) printer[T] {
	nothing := func() error { return nil }
	switch {
	case f.quiet:
		return printer[T]{func(item T) error { _, err := fmt.Fprintln(f.out, clean(l.id(item))); return err }, nothing}
	case f.json:
		list := &jsonList{w: f.out}
		return printer[T]{func(item T) error { return list.add(item) }, list.end}
	}
	t := f.table(l.columns...)
	return printer[T]{func(item T) error { return t.add(l.row(item)...) }, t.flush}
}
