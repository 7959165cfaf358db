// Package telemetry is how Berth tells what it does: logs and metrics.
//
//   - [NewLogger] writes slog records as text or JSON, adds the fields that
//     [With] put into the context, and lets no secret past its [Redactor].
//   - [Redactor] takes known secrets out of strings and streams in the forms
//     they are usually written in: raw, base64, hex, URL and JSON escapes.
//   - [Metrics] is the Prometheus registry behind /metrics.
package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes one line per record, as JSON if format
// is "json" and as text otherwise. Redaction works on the finished line, so
// nothing a record can hold (messages, keys, groups, errors, structs) gets
// around it. A nil redactor knows no secrets.
func NewLogger(w io.Writer, format string, level slog.Leveler, r *Redactor) *slog.Logger {
	if r == nil {
		r = &Redactor{}
	}
	opts := &slog.HandlerOptions{Level: level}
	out := &lines{w: w, r: r, mend: asIs}
	if format == "json" {
		out.mend = mendJSON
		return slog.New(newContextHandler(slog.NewJSONHandler(out, opts), out.flush))
	}
	return slog.New(newContextHandler(slog.NewTextHandler(out, opts), out.flush))
}

func asIs(line string) []byte { return []byte(line) }

// mendJSON keeps a log of JSON lines readable when a secret stood where no
// string can stand, for example as a number: the whole line becomes a string.
func mendJSON(line string) []byte {
	if json.Valid([]byte(line)) {
		return []byte(line)
	}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Warn("a log record was redacted and is no JSON object any more", "record", line)
	return b.Bytes()
}
