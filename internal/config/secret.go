package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
)

const masked = "(masked)"

// Secret is a value that prints, logs and encodes as a mask. Only Reveal returns the value, so that each use can be
// found.
type Secret string

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }

// String returns the mask: at most the first four characters.
func (s Secret) String() string { return maskText(string(s)) }

// Format masks the value under every verb. Verbs such as %d and %#v do not call String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText keeps the value out of JSON and TOML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps the value out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// DSN is a database URL. It prints, logs and encodes with its password masked.
type DSN string

// Reveal returns the URL with its password.
func (d DSN) Reveal() string { return string(d) }

// String returns the URL with its password masked. If the URL cannot be parsed, the whole is masked.
func (d DSN) String() string { return maskURL(string(d)) }

// Format masks the password under every verb.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText keeps the password out of JSON and TOML.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue keeps the password out of logs.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// secrets returns the texts that must never appear in a log: the whole URL and its passwords, as written and decoded.
func (d DSN) secrets() []string {
	if d == "" {
		return nil
	}
	found := []string{string(d)}
	u, err := url.Parse(string(d))
	if err != nil {
		return found
	}
	if password, ok := u.User.Password(); ok {
		found = append(found, password)
	}
	for name, values := range u.Query() {
		if secretParameter(name) {
			found = append(found, values...)
		}
	}
	return found
}

// maskText shows the first four characters of a long secret, to tell two keys apart, and none of a short one.
func maskText(s string) string {
	switch {
	case s == "":
		return ""
	case len(s) < 16:
		return masked
	}
	shown := 0
	for i := range s {
		if shown == 4 {
			return s[:i] + "…" + masked
		}
		shown++
	}
	return masked
}

// maskURL masks the parts of a URL that may hold a secret. A password with an unescaped '#', '/' or '?' is parsed as a
// fragment, path or query, so a URL that may have such a password is masked as a whole.
func maskURL(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case raw == "", raw == "none", filepath.IsAbs(raw):
		return raw
	case err != nil, u.Scheme == "", u.Opaque != "", u.Fragment != "":
		return maskText(raw)
	case u.User == nil && strings.Contains(raw, "@"), strings.Contains(u.Path+u.RawQuery, "@"):
		return maskText(raw)
	}
	const placeholder = "BERTHMASKBERTH"
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), placeholder)
	} else if u.User != nil && !strings.HasPrefix(u.Scheme, "postgres") {
		u.User = url.User(placeholder)
	}
	u.RawQuery = maskQuery(u.RawQuery, placeholder)
	return strings.ReplaceAll(u.String(), placeholder, masked)
}

func maskQuery(raw, placeholder string) string {
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		if name, _, ok := strings.Cut(pair, "="); ok && secretParameter(name) {
			pairs[i] = name + "=" + placeholder
		}
	}
	return strings.Join(pairs, "&")
}

func secretParameter(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"password", "secret", "token", "key"} {
		if strings.Contains(name, word) && name != "sslkey" {
			return true
		}
	}
	return false
}
