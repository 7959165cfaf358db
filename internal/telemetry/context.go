package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
)

type fieldsKey struct{}

// With returns a context whose log records carry attrs. An attribute replaces
// an earlier one of the same key.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	kept := slices.DeleteFunc(slices.Clone(fields(ctx)), func(old slog.Attr) bool {
		return slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == old.Key })
	})
	return context.WithValue(ctx, fieldsKey{}, append(kept, attrs...))
}

func fields(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(fieldsKey{}).([]slog.Attr)
	return attrs
}

// contextHandler adds the fields of the context to each record, at the top
// level, whatever groups the logger has opened.
type contextHandler struct {
	slog.Handler              // with everything the logger added
	base         slog.Handler // without what it added since its first group
	grouped      []func(slog.Handler) slog.Handler
	flush        func() error // writes the records that were passed on
}

func newContextHandler(h slog.Handler, flush func() error) *contextHandler {
	return &contextHandler{Handler: h, base: h, flush: flush}
}

// Handle adds the context's fields, passes the record on and has it written.
func (h *contextHandler) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h.pass(ctx, r), h.flush())
}

func (h *contextHandler) pass(ctx context.Context, r slog.Record) error {
	attrs := fields(ctx)
	switch {
	case len(attrs) == 0:
		return h.Handler.Handle(ctx, r)
	case len(h.grouped) == 0:
		r = r.Clone()
		r.AddAttrs(attrs...)
		return h.Handler.Handle(ctx, r)
	}
	inner := h.base.WithAttrs(attrs)
	for _, again := range h.grouped {
		inner = again(inner)
	}
	return inner.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attrs.
func (h *contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.grouped) == 0 {
		return newContextHandler(h.Handler.WithAttrs(attrs), h.flush)
	}
	return h.then(func(in slog.Handler) slog.Handler { return in.WithAttrs(attrs) })
}

// WithGroup returns a handler that puts what follows into a group.
func (h *contextHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.then(func(in slog.Handler) slog.Handler { return in.WithGroup(name) })
}

func (h *contextHandler) then(step func(slog.Handler) slog.Handler) *contextHandler {
	return &contextHandler{
		Handler: step(h.Handler),
		base:    h.base,
		grouped: append(slices.Clone(h.grouped), step),
		flush:   h.flush,
	}
}
