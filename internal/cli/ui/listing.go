package ui

import (
	"fmt"
	"iter"
)

// Listing describes the output of one list.
type Listing[T any] struct {
	Columns []string
	Drop    []string // columns that are left out at a narrow terminal, in this order
	Row     func(T) []Cell
	ID      func(T) string // value that -q prints
	Empty   string         // message to print if there are no items
	Limit   int            // maximum number of items; zero: all
}

// printer is one form of output: ids, JSON or a table.
type printer[T any] struct {
	add func(T) error
	end func() error
}

// Show prints the items while they arrive. It also prints the items before an error.
func Show[T any](u *UI, items iter.Seq2[T, error], l Listing[T]) error {
	p, n := l.printer(u), 0
	for item, err := range items {
		if err != nil {
			if n > 0 && !u.JSON {
				_ = p.end()
			}
			return err
		}
		if err := p.add(item); err != nil {
			return err
		}
		if n++; n == l.Limit {
			break
		}
	}
	if n == 0 && l.Empty != "" && !u.JSON {
		u.Notef("%s", l.Empty)
		return nil
	}
	return p.end()
}

// Items yields the items, and then the error if it is not nil.
func Items[T any](items []T, err error) iter.Seq2[T, error] {
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

func (l Listing[T]) printer(u *UI) printer[T] {
	nothing := func() error { return nil }
	switch {
	case u.Quiet:
		return printer[T]{func(item T) error { _, err := fmt.Fprintln(u.Out, Clean(l.ID(item))); return err }, nothing}
	case u.JSON:
		list := &JSONList{W: u.Out}
		return printer[T]{func(item T) error { return list.Add(item) }, list.End}
	}
	t := u.NewTable(l.Columns...)
	t.Drop = l.Drop
	return printer[T]{func(item T) error { return t.Add(l.Row(item)...) }, t.Flush}
}
