package config

import (
	"slices"
	"strings"
)

// Kind is the form of a setting's value.
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

// Setting is one row of the table of settings. Loading, flags, printing and the reference page use it.
type Setting struct {
	Key     string   // in the TOML file and in `berth config`
	Env     []string // names of the variable by precedence: Berth's own name first, then other accepted ones
	Flag    string   // without dashes; empty: no flag
	Kind    Kind
	Default string // as a user would write it; for a computed default, a description
	Secret  bool   // never shown whole
	Tuning  bool   // an invalid value is replaced by the default with a warning, and the server starts
	Unused  bool   // accepted without effect in this version; setting it causes a warning
	Help    string

	field  field
	derive func(*Config, Sources) (string, *badValue) // computes the default, or returns "" if it depends on a refused value; nil: use Default
}

// Settings returns all settings in the order of the documentation.
func Settings() []Setting { return slices.Clone(table) }

// field reads and writes the setting's field in Config.
type field struct {
	set  func(*Config, string) *badValue
	text func(*Config) string
}

// bind returns a field for the variable that at returns. parse reads its value and format writes it.
func bind[T any](at func(*Config) *T, parse func(string) (T, *badValue), format func(T) string) field {
	return field{
		set: func(c *Config, raw string) *badValue {
			v, f := parse(raw)
			if f == nil {
				*at(c) = v
			}
			return f
		},
		text: func(c *Config) string { return format(*at(c)) },
	}
}

// text returns a field for a plain string.
func text(at func(*Config) *string, parse func(string) (string, *badValue)) field {
	return bind(at, parse, func(s string) string { return s })
}

// urlText returns a field for a string that is shown with its secrets masked.
func urlText(at func(*Config) *string, parse func(string) (string, *badValue)) field {
	return bind(at, parse, maskURL)
}

// secret returns a field for a value that is shown only as a mask.
func secret(at func(*Config) *Secret, atLeast, atMost int) field {
	parse := func(raw string) (Secret, *badValue) { return parseSecret(raw, atLeast, atMost) }
	return bind(at, parse, Secret.String)
}

// ownEnv returns the name of a setting's environment variable.
func ownEnv(key string) string { return "BERTH_" + strings.ToUpper(key) }

func known(key string) (Setting, bool) {
	i := slices.IndexFunc(table, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return table[i], true
}

// shown returns a raw value with its secrets masked, for messages.
func (s Setting) shown(raw string) string {
	switch {
	case s.Kind == URL && (s.Secret || strings.Contains(raw, ":")):
		return maskURL(raw)
	case s.Secret:
		return maskText(raw)
	}
	return raw
}
