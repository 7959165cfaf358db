package config

import (
	"slices"
	"strings"
)

// Kind says what a setting's value looks like.
type Kind string

// The kinds of values. A duration is a whole number of seconds or text such as
// "90s", "1h30m" or "30d"; a size is a number of bytes or text such as "2MiB"; a limit
// is a number, "auto" or "off"; a list is a TOML array or comma-separated text.
const (
	Text     Kind = "text"
	Name     Kind = "name"
	Choice   Kind = "choice"
	Address  Kind = "address"
	Path     Kind = "path"
	URL      Kind = "URL"
	List     Kind = "list"
	Switch   Kind = "switch"
	Duration Kind = "duration"
	Size     Kind = "size"
	Cap      Kind = "limit"
)

// Setting is one row of the table that loading, flags, printing and the
// reference page are derived from.
type Setting struct {
	Key     string   // in the TOML file and in `berth config`
	Env     []string // strongest first: Berth's own name, then the other accepted ones
	Flag    string   // without dashes; empty: no flag
	Kind    Kind
	Default string // as it would be written; for computed ones, how it is computed
	Secret  bool   // never shown whole
	Tuning  bool   // a bad value becomes the default with a warning, instead of refusing to start
	Unused  bool   // accepted, and nothing in this version acts on it: setting it gets a warning
	Help    string

	field  field
	derive func(*Config, Sources) (string, *fault) // computes the default, "" from a refused value; nil: Default is it
}

// Settings returns the whole table, in the order people read it.
func Settings() []Setting { return slices.Clone(table) }

// field connects a setting with its place in Config.
type field struct {
	set  func(*Config, string) *fault
	text func(*Config) string
}

// bind makes the field behind at, read by parse and written by format.
func bind[T any](at func(*Config) *T, parse func(string) (T, *fault), format func(T) string) field {
	return field{
		set: func(c *Config, raw string) *fault {
			v, f := parse(raw)
			if f == nil {
				*at(c) = v
			}
			return f
		},
		text: func(c *Config) string { return format(*at(c)) },
	}
}

// text makes a field of a plain string.
func text(at func(*Config) *string, parse func(string) (string, *fault)) field {
	return bind(at, parse, func(s string) string { return s })
}

// urlText makes a field of a string that is shown with its secrets masked.
func urlText(at func(*Config) *string, parse func(string) (string, *fault)) field {
	return bind(at, parse, maskURL)
}

// secret makes a field that is never shown whole.
func secret(at func(*Config) *Secret, atLeast, atMost int) field {
	parse := func(raw string) (Secret, *fault) { return parseSecret(raw, atLeast, atMost) }
	return bind(at, parse, Secret.String)
}

// ownEnv is the name Berth gives a setting in the environment.
func ownEnv(key string) string { return "BERTH_" + strings.ToUpper(key) }

func known(key string) (Setting, bool) {
	i := slices.IndexFunc(table, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return table[i], true
}

// shown is how a raw value may appear in a message.
func (s Setting) shown(raw string) string {
	switch {
	case s.Kind == URL && (s.Secret || strings.Contains(raw, ":")):
		return maskURL(raw)
	case s.Secret:
		return maskText(raw)
	}
	return raw
}
