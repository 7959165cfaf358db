package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sources are the places from which Load reads values.
type Sources struct {
	// File is the path of the TOML file; empty: the value of BERTH_CONFIG. If both are empty, no file is read.
	File string
	// Env looks up a variable, like os.LookupEnv. A variable that is set but empty counts as not set. If Env is nil,
	// there is no environment.
	Env func(string) (string, bool)
	// Flags holds the given flags by name, without dashes.
	Flags map[string]string
	// Values holds the settings of an embedding program by key. They override all other sources.
	Values map[string]string
}

// Loaded is a configuration with the origin of each value.
type Loaded struct {
	Config
	// File is the path of the TOML file; empty: no file was read.
	File string
	// Warnings are messages to log once logging works.
	Warnings []string

	origins  map[string]string
	problems []Problem
}

// Load resolves every setting. If values are invalid, the error is an [*Error] with all problems, and the result holds
// the valid values; it can be shown but must not be used. If the file cannot be read, the result is nil.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{File: src.file(), origins: map[string]string{}}
	file, err := readFile(l.File)
	if err != nil {
		return nil, err
	}
	l.problems = append(l.problems, file.problems...)
	l.Warnings = append(l.Warnings, file.warnings...)
	l.refuseUnknownFlags(src.Flags)
	l.refuseUnknownValues(src.Values)
	l.warnUnknownEnv(src)
	for _, s := range table {
		l.resolve(s, src, file)
	}
	l.useBucket()
	l.warnUnused()
	l.Templates = file.templates
	l.checkPairs()
	if len(l.problems) > 0 {
		return l, &Error{Problems: l.problems}
	}
	return l, nil
}

// Origin returns the source of key's value: "default", "file PATH:LINE", "env NAME", "flag --NAME" or "the program". It
// returns the empty string for an unknown key.
func (l *Loaded) Origin(key string) string { return l.origins[key] }

// Secrets returns all secret values, for the redactor of logs.
func (l *Loaded) Secrets() []string {
	found := l.DatabaseURL.secrets()
	for _, s := range append([]Secret{l.APIKey, l.SecretKey, l.SandboxAgentToken,
		l.SandboxHackclubAPIKey, l.ModalTokenSecret, l.DaytonaAPIKey}, l.SecretKeyPrevious...) {
		if s != "" {
			found = append(found, s.Reveal())
		}
	}
	return found
}

// resolve sets the value of s from the source with the highest precedence, or from the default.
func (l *Loaded) resolve(s Setting, src Sources, file *file) {
	raw, origin, f := l.given(s, src, file)
	if origin != "" && f == nil {
		f = s.field.set(&l.Config, raw)
	}
	if origin != "" && f == nil {
		l.origins[s.Key] = origin
		return
	}
	if f != nil && !s.Tuning {
		l.refuse(s.Key, origin, s.shown(raw), f)
		return
	}
	if f != nil {
		bad := Problem{Key: s.Key, Origin: origin, Value: s.shown(raw), Why: f.why, Fix: f.fix}
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s; the default %s is used", bad, s.Default))
	}
	l.useDefault(s, src)
}

// given returns the raw value of a setting and its origin. Both are empty if no source has the setting.
func (l *Loaded) given(s Setting, src Sources, file *file) (raw, origin string, f *badValue) {
	if raw := src.Values[s.Key]; raw != "" {
		return raw, "the program", nil
	}
	if raw, ok := src.Flags[s.Flag]; ok && s.Flag != "" {
		return raw, "flag --" + s.Flag, nil
	}
	if raw, name := l.fromEnv(s, src); name != "" {
		return raw, "env " + name, nil
	}
	if v, ok := file.values[s.Key]; ok {
		raw, f := v.text(s.Kind)
		return raw, v.origin, f
	}
	return "", "", nil
}

func (l *Loaded) fromEnv(s Setting, src Sources) (raw, name string) {
	for _, candidate := range s.Env {
		value := src.env(candidate)
		switch {
		case value == "":
		case name == "":
			raw, name = value, candidate
		case value != raw:
			l.Warnings = append(l.Warnings, fmt.Sprintf("%s and %s are both set and differ; %s is used", name, candidate, name))
		}
	}
	return raw, name
}

func (l *Loaded) useDefault(s Setting, src Sources) {
	l.origins[s.Key] = "default"
	raw, f := s.Default, (*badValue)(nil)
	if s.derive != nil {
		if raw, f = s.derive(&l.Config, src); raw == "" && f == nil {
			return // the default depends on a refused value; one problem is enough
		}
	}
	if f == nil {
		f = s.field.set(&l.Config, raw)
	}
	if f != nil {
		l.refuse(s.Key, "default", "", f)
	}
}

func (l *Loaded) refuse(key, origin, value string, f *badValue) {
	l.problems = append(l.problems, Problem{Key: key, Origin: origin, Value: value, Why: f.why, Fix: f.fix})
}

func (l *Loaded) refuseUnknownFlags(flags map[string]string) {
	for name := range flags {
		if !slices.ContainsFunc(table, func(s Setting) bool { return s.Flag == name && name != "" }) {
			l.refuse("--"+name, "", "", badValuef("leave it out", "is not a configuration flag"))
		}
	}
}

func (l *Loaded) refuseUnknownValues(values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(table, func(s Setting) bool { return s.Key == key }) {
			l.refuse(key, "the program", "", badValuef("leave it out", "is not a setting"))
		}
	}
}

// useBucket uses s3_bucket_agent_docs as the object store if object_store is empty.
func (l *Loaded) useBucket() {
	switch bucket := l.S3BucketAgentDocs; {
	case bucket == "":
	case l.ObjectStore == "":
		l.ObjectStore, l.origins["object_store"] = "s3://"+bucket, l.origins["s3_bucket_agent_docs"]
	case l.ObjectStore != "s3://"+bucket && !strings.HasPrefix(l.ObjectStore, "s3://"+bucket+"/") && !strings.HasPrefix(l.ObjectStore, "s3://"+bucket+"?"):
		l.Warnings = append(l.Warnings, fmt.Sprintf("s3_bucket_agent_docs (%s) is not used: object_store names another place", l.origins["s3_bucket_agent_docs"]))
	}
}

// warnUnused warns about settings that were given and have no effect.
func (l *Loaded) warnUnused() {
	for _, s := range table {
		origin := l.origins[s.Key]
		if s.Unused && origin != "" && origin != "default" && (s.Secret || s.field.text(&l.Config) != s.Default) {
			l.Warnings = append(l.Warnings, fmt.Sprintf("%s (%s) is accepted and has no effect in this version", s.Key, origin))
		}
	}
}

func (l *Loaded) checkPairs() {
	if host := l.sameSite(); host != "" {
		l.refuse("preview_domain", l.Origin("preview_domain"), l.PreviewDomain, badValuef(
			"use a domain of another name that is registered for previews alone, such as berth-previews.net, or none",
			"has the same site as %s, where this server is: pages of sandboxes could set cookies there and send requests as its users", host))
	}
	switch {
	case l.ModalTokenID != "" && l.ModalTokenSecret == "":
		l.refuse("modal_token_secret", "", "", badValuef("set MODAL_TOKEN_SECRET too", "is missing while modal_token_id is set"))
	case l.ModalTokenID == "" && l.ModalTokenSecret != "":
		l.refuse("modal_token_id", "", "", badValuef("set MODAL_TOKEN_ID too", "is missing while modal_token_secret is set"))
	}
}

func (src Sources) env(name string) string {
	if src.Env == nil {
		return ""
	}
	value, _ := src.Env(name)
	return value
}

func (src Sources) file() string {
	if src.File != "" {
		return src.File
	}
	return src.env("BERTH_CONFIG")
}
