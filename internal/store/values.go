package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// at converts a time to an argument: UTC, in microseconds, null for the zero time.
func at(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Truncate(time.Microsecond)
}

// instant reads a time of either engine into t. SQLite loses a column's declared type in expressions and RETURNING,
// and then returns the bare integer.
type instant struct{ t *time.Time }

// Scan implements sql.Scanner.
func (i instant) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*i.t = time.Time{}
	case time.Time:
		*i.t = v.UTC()
	case int64:
		*i.t = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("read time from %T", v)
	}
	return nil
}

// document reads JSON text into v; null, an empty object and an empty list leave v unchanged.
type document struct{ v any }

// Scan implements sql.Scanner.
func (d document) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return d.read([]byte(v))
	case []byte:
		return d.read(v)
	}
	return fmt.Errorf("read JSON from %T", v)
}

func (d document) read(text []byte) error {
	if t := string(text); t == "{}" || t == "[]" {
		return nil
	}
	return json.Unmarshal(text, d.v)
}

// orNull converts a string to an argument; an empty string becomes null.
func orNull[T ~string](word T) any {
	if word == "" {
		return nil
	}
	return string(word)
}

// listArg converts a list of texts and numbers to an argument.
func listArg[T any](items []T) string {
	if len(items) == 0 {
		return "[]"
	}
	text, err := json.Marshal(items)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return string(text)
}

// asJSON converts a map to an argument; an empty one is an empty object.
func asJSON[M ~map[string]V, V any](m M) string {
	if len(m) == 0 {
		return "{}"
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return string(text)
}

// inList returns ids as arguments, and their placeholders for a condition with "in", which begin at $from.
func inList(from int, ids []string) (args []any, marks string) {
	names := make([]string, len(ids))
	for i, id := range ids {
		args = append(args, id)
		names[i] = fmt.Sprintf("$%d", from+i)
	}
	return args, strings.Join(names, ", ")
}
