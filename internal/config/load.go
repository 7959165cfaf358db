package config

import (
	"fmt"
	"slices"
	"strings"
)

// Sources are the places values come from.
type Sources struct {
	// File is the TOML file asked for; empty: the one BERTH_CONFIG names, if any.
	File string
	// Env looks a variable up, as os.LookupEnv does; nil: no environment. A
	// variable that is set but empty counts as not set.
	Env func(string) (string, bool)
	// Flags holds the flags that were given, by name without dashes.
	Flags map[string]string
}

// Loaded is a configuration and where each of its values came from.
type Loaded struct {
	Config
	// File is the TOML file that was read; empty: none.
	File string
	// Warnings are sentences to log once logging works.
	Warnings []string

	origins  map[string]string
	problems []Problem
}

// Load resolves every setting. The error is an [*Error] with all problems at
// once, beside which Load returns what could be resolved, to be shown and not
// to be used; or it says why the file could not be read, and there is nothing.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{File: src.file(), origins: map[string]string{}}
	file, err := readFile(l.File)
	if err != nil {
		return nil, err
	}
	l.problems = append(l.problems, file.problems...)
	l.Warnings = append(l.Warnings, file.warnings...)
	l.refuseUnknownFlags(src.Flags)
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

// Origin says where the value of key came from: "default", "file PATH:LINE",
// "env NAME" or "flag --NAME". It is empty for a key that does not exist.
func (l *Loaded) Origin(key string) string { return l.origins[key] }

// Secrets returns every secret value in force, for a redactor to know.
func (l *Loaded) Secrets() []string {
	found := l.DatabaseURL.secrets()
	for _, s := range []Secret{l.APIKey, l.SecretKey, l.SandboxAgentToken,
		l.SandboxHackclubAPIKey, l.ModalTokenSecret, l.DaytonaAPIKey} {
		if s != "" {
			found = append(found, s.Reveal())
		}
	}
	return found
}

// resolve takes the strongest source that has the setting.
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

// given finds the raw value of a setting and its origin, both empty when no
// source has it.
func (l *Loaded) given(s Setting, src Sources, file *file) (raw, origin string, f *fault) {
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
	raw, f := s.Default, (*fault)(nil)
	if s.derive != nil {
		if raw, f = s.derive(&l.Config, src); raw == "" && f == nil {
			return // what it derives from was refused, which is problem enough
		}
	}
	if f == nil {
		f = s.field.set(&l.Config, raw)
	}
	if f != nil {
		l.refuse(s.Key, "default", "", f)
	}
}

func (l *Loaded) refuse(key, origin, value string, f *fault) {
	l.problems = append(l.problems, Problem{Key: key, Origin: origin, Value: value, Why: f.why, Fix: f.fix})
}

func (l *Loaded) refuseUnknownFlags(flags map[string]string) {
	for name := range flags {
		if !slices.ContainsFunc(table, func(s Setting) bool { return s.Flag == name && name != "" }) {
			l.refuse("--"+name, "", "", faultf("leave it out", "is not a configuration flag"))
		}
	}
}

// useBucket takes s3_bucket_agent_docs for the object store where none is named.
func (l *Loaded) useBucket() {
	switch bucket := l.S3BucketAgentDocs; {
	case bucket == "":
	case l.ObjectStore == "":
		l.ObjectStore, l.origins["object_store"] = "s3://"+bucket, l.origins["s3_bucket_agent_docs"]
	case l.ObjectStore != "s3://"+bucket && !strings.HasPrefix(l.ObjectStore, "s3://"+bucket+"/") && !strings.HasPrefix(l.ObjectStore, "s3://"+bucket+"?"):
		l.Warnings = append(l.Warnings, fmt.Sprintf("s3_bucket_agent_docs (%s) is not used: object_store names another place", l.origins["s3_bucket_agent_docs"]))
	}
}

// warnUnused names the settings that were given and have no effect.
func (l *Loaded) warnUnused() {
	for _, s := range table {
		origin := l.origins[s.Key]
		if s.Unused && origin != "" && origin != "default" && (s.Secret || s.field.text(&l.Config) != s.Default) {
			l.Warnings = append(l.Warnings, fmt.Sprintf("%s (%s) is accepted and has no effect in this version", s.Key, origin))
		}
	}
}

func (l *Loaded) checkPairs() {
	switch {
	case l.ModalTokenID != "" && l.ModalTokenSecret == "":
		l.refuse("modal_token_secret", "", "", faultf("set MODAL_TOKEN_SECRET too", "is missing while modal_token_id is set"))
	case l.ModalTokenID == "" && l.ModalTokenSecret != "":
		l.refuse("modal_token_id", "", "", faultf("set MODAL_TOKEN_ID too", "is missing while modal_token_secret is set"))
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
