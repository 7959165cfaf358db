package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
)

type fieldsKey struct{}

// With returns a context whose log records have attrs. An attribute replaces an earlier one with the same key.
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

// contextHandler adds the attributes of the context to each record, outside of the logger's groups. An attribute that
// the record already has is not added.
type contextHandler struct {
	slog.Handler                                   // with all attributes and groups of the logger
	base         slog.Handler                      // without the groups, and without attributes added since the first group
	grouped      []func(slog.Handler) slog.Handler // calls that made Handler from base, in their order
	flush        func() error                      // writes the collected records
}

func newContextHandler(h slog.Handler, flush func() error) *contextHandler {
	return &contextHandler{Handler: h, base: h, flush: flush}
}

// Handle adds the context's attributes to the record, passes it on and flushes.
func (h *contextHandler) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h.pass(ctx, r), h.flush())
}

func (h *contextHandler) pass(ctx context.Context, r slog.Record) error {
	attrs := fields(ctx)
	switch {
	case len(attrs) == 0:
		return h.Handler.Handle(ctx, r)
	case len(h.grouped) == 0:
		own := r
		r = r.Clone()
		r.AddAttrs(slices.DeleteFunc(slices.Clone(attrs), func(a slog.Attr) bool { return hasAttr(own, a.Key) })...)
		return h.Handler.Handle(ctx, r)
	}
	inner := h.base.WithAttrs(attrs)
	for _, again := range h.grouped {
		inner = again(inner)
	}
	return inner.Handle(ctx, r)
}

// hasAttr reports whether the record has an attribute with the key.
func hasAttr(r slog.Record, key string) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

// WithAttrs returns a handler that adds attrs.
func (h *contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.grouped) == 0 {
		return newContextHandler(h.Handler.WithAttrs(attrs), h.flush)
	}
	return h.then(func(in slog.Handler) slog.Handler { return in.WithAttrs(attrs) })
}

// WithGroup returns a handler that puts later attributes into a group.
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
