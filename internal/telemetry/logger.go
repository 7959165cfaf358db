// Package telemetry provides Berth's logs and metrics.
//
//   - [NewLogger] writes slog records as text, JSON or short lines. It adds the attributes that
//     [With] put into the context, and redacts secrets with its [Redactor].
//   - [Redactor] removes known secrets from strings and streams in their usual
//     forms: raw, base64, hex, URL and JSON escapes.
//   - [Metrics] is the Prometheus registry behind /metrics.
package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
)

// NewLogger returns a logger that writes one line per record: as JSON if format
// is "json", as text if it is "text". With "auto" it writes short lines to a terminal
// and JSON to all else. The redactor gets the finished line, so it covers all parts of
// a record (messages, keys, groups, errors, structs). A nil redactor knows no secrets.
func NewLogger(w io.Writer, format string, level slog.Leveler, r *Redactor) *slog.Logger {
	if r == nil {
		r = &Redactor{}
	}
	opts := &slog.HandlerOptions{Level: level}
	out := &lines{w: w, r: r, repair: asIs}
	switch {
	case format == "auto" && isTerminal(w):
		return slog.New(newContextHandler(&shortHandler{w: out, level: level, colour: os.Getenv("NO_COLOR") == ""}, out.flush))
	case format == "json", format == "auto":
		out.repair = repairJSON
		return slog.New(newContextHandler(slog.NewJSONHandler(out, opts), out.flush))
	}
	return slog.New(newContextHandler(slog.NewTextHandler(out, opts), out.flush))
}

func asIs(line string) []byte { return []byte(line) }

// repairJSON returns line if it is valid JSON. Otherwise redaction replaced something that is not a
// string, for example a number, and repairJSON returns a new record that holds the line as a string.
func repairJSON(line string) []byte {
	if json.Valid([]byte(line)) {
		return []byte(line)
	}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Warn("a log record was redacted and is no JSON object any more", "record", line)
	return b.Bytes()
}
