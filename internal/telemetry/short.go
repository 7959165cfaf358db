package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// shortHandler writes one short line per record for people at a terminal: the time, the message and the most important
// fields. The formats text and json have all fields.
type shortHandler struct {
	w      io.Writer
	level  slog.Leveler
	colour bool
	attrs  []slog.Attr
	group  string
}

// Enabled reports whether records of the level are written.
func (h *shortHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// WithAttrs returns a handler that adds the fields to its records.
func (h *shortHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = slices.Concat(h.attrs, c.named(attrs))
	return &c
}

// WithGroup returns a handler that adds the name as a prefix to the keys of later fields.
func (h *shortHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group += name + "."
	return &c
}

func (h *shortHandler) named(attrs []slog.Attr) []slog.Attr {
	named := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		named[i] = slog.Attr{Key: h.group + a.Key, Value: a.Value}
	}
	return named
}

// shown are the fields of a line, in their order. Identifiers and counters are left out.
var shown = []string{"method", "path", "status", "owner_id", "from", "to", "hook", "reason", "address", "url", "error"}

// noise are fields that are left out even of warnings and errors.
var noise = []string{"request_id", "tenant", "key_id", "sandbox_id", "owner_kind", "generation", "incarnation", "template", "driver", "took_ms", "bytes", "route", "remote", "actor"}

// Handle writes the record as one line.
func (h *shortHandler) Handle(_ context.Context, r slog.Record) error {
	fields := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fields = append(fields, h.named([]slog.Attr{a})...)
		return true
	})
	line := h.paint("2", r.Time.Format(time.TimeOnly)) + " " + h.message(r)
	for _, key := range shown {
		if value, ok := find(fields, key); ok && value != "" {
			line += " " + h.field(key, value)
		}
	}
	if took, ok := find(fields, "took_ms"); ok {
		line += h.paint("2", " "+took+"ms")
	}
	if r.Level >= slog.LevelWarn {
		for _, a := range fields {
			if !slices.Contains(shown, a.Key) && !slices.Contains(noise, a.Key) {
				line += " " + h.paint("2", a.Key+"=") + printable(a.Value.String())
			}
		}
	}
	_, err := io.WriteString(h.w, line+"\n")
	return err
}

// message returns the record's message. Errors and warnings begin with their level.
func (h *shortHandler) message(r slog.Record) string {
	text := printable(r.Message)
	switch {
	case r.Level >= slog.LevelError:
		return h.paint("31", "ERROR "+text)
	case r.Level >= slog.LevelWarn:
		return h.paint("33", "WARN "+text)
	case r.Level < slog.LevelInfo:
		return h.paint("2", text)
	}
	return text
}

// field returns the value of a field in its colour. The key is not shown.
func (h *shortHandler) field(key, value string) string {
	value = printable(value)
	switch key {
	case "status":
		if value >= "400" {
			return h.paint("31", value)
		}
		return h.paint("32", value)
	case "from":
		return value
	case "to":
		return "→ " + value
	case "reason":
		return "(" + value + ")"
	case "error":
		return h.paint("31", value)
	}
	return value
}

func find(fields []slog.Attr, key string) (string, bool) {
	for _, a := range slices.Backward(fields) {
		if a.Key == key {
			return a.Value.String(), true
		}
	}
	return "", false
}

// printable escapes unprintable characters: fields may come from a sandbox and contain escape sequences for the
// terminal.
func printable(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) < 0 {
		return text
	}
	return strings.Trim(fmt.Sprintf("%q", text), `"`)
}

func (h *shortHandler) paint(code, text string) string {
	if !h.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
