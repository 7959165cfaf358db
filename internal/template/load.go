package template

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/config"
)

// Report lists the problems of the templates in a configuration.
type Report struct {
	Problems []config.Problem // the server does not start with these
	Warnings []config.Problem // accepted values that may not have the intended effect
}

// Err returns all problems as one error, or nil if there are none.
func (p Report) Err() error {
	if len(p.Problems) == 0 {
		return nil
	}
	return &config.Error{Problems: p.Problems}
}

// FromConfig returns the registry of a configuration. Templates with problems are left out.
func FromConfig(cfg *config.Loaded, drivers []string) (*Registry, Report) {
	l := &loader{
		Registry: New(Options{
			Default: cfg.DefaultTemplate, Driver: cfg.DefaultDriver, Profile: cfg.SandboxProfileType,
			Drivers: drivers, DataDir: cfg.DataDir, Bucket: bucketOf(cfg.ObjectStore),
			KeepLast: cfg.KeepLast, KeepDaily: cfg.KeepDaily,
			SaveAfter: cfg.SaveAfter, SaveEvery: cfg.SaveEvery,
		}),
		sections: cfg.Templates,
		state:    map[string]progress{},
	}
	if cfg.DefaultDriver != "" && !slices.Contains(drivers, cfg.DefaultDriver) {
		l.refuse(config.Problem{Key: "default_driver", Origin: cfg.Origin("default_driver"), Value: cfg.DefaultDriver,
			Why: "is no driver of this Berth", Fix: "write one of: " + strings.Join(drivers, ", ")})
	}
	for _, name := range slices.Sorted(maps.Keys(l.sections)) {
		l.load(name)
	}
	if names := l.names(); cfg.DefaultTemplate != "" && !slices.Contains(names, cfg.DefaultTemplate) {
		l.refuse(config.Problem{Key: "default_template", Origin: cfg.Origin("default_template"), Value: cfg.DefaultTemplate,
			Why: "is no template of this Berth", Fix: "write one of: " + strings.Join(names, ", ")})
	}
	return l.Registry, l.report
}

// progress is the state of loading a section.
type progress int

const (
	begun progress = iota + 1
	usable
	refused
)

// loader adds the sections to a registry, each after the template that it extends.
type loader struct {
	*Registry
	sections map[string]config.Section
	state    map[string]progress
	report   Report
}

// bucketOf returns the bucket in an s3:// address, or the empty string for other addresses.
func bucketOf(address string) string {
	rest, ok := strings.CutPrefix(address, "s3://")
	if !ok {
		return ""
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	return rest[:end]
}

// names returns the names of all templates, including those with problems.
func (l *loader) names() []string {
	all := append(l.Names(), slices.Collect(maps.Keys(l.sections))...)
	slices.Sort(all)
	return slices.Compact(all)
}

// load loads one section and reports whether it defines a valid template.
func (l *loader) load(name string) bool {
	if l.state[name] != 0 {
		return l.state[name] == usable
	}
	l.state[name] = begun
	t := Template{Name: name}
	ok := l.read(&t) && l.inherit(&t) && l.complete(t)
	if ok {
		l.state[name] = usable
		l.all[name] = l.filled(t)
	} else {
		l.state[name] = refused
	}
	return ok
}

// read decodes and checks the section without its parent.
func (l *loader) read(t *Template) bool {
	section := l.sections[t.Name]
	err := section.Decode(t)
	var unread *config.Error
	var found []config.Problem
	if errors.As(err, &unread) {
		found = unread.Problems
	}
	undecoded := map[string]bool{}
	for _, p := range found {
		undecoded[field(p)] = true
	}
	// A field that could not be decoded gets no second problem.
	for _, p := range l.check(*t, section.OriginOf) {
		if !undecoded[field(p)] {
			found = append(found, p)
		}
	}
	l.refuse(found...)
	t.mergeProfile()
	for _, key := range unused {
		if section.Has(key) {
			l.report.Warnings = append(l.report.Warnings, config.Problem{Key: "templates." + t.Name + "." + key,
				Origin: section.OriginOf(key), Why: "is kept, not used yet", Fix: "nothing in this version acts on it"})
		}
	}
	if t.S3BucketName != "" && t.S3BucketName != l.o.Bucket {
		l.report.Warnings = append(l.report.Warnings, config.Problem{Key: "templates." + t.Name + ".s3_bucket_name", Value: t.S3BucketName,
			Origin: section.OriginOf("s3_bucket_name"), Why: "is kept, not used", Fix: "workspaces are saved in the server's object_store, whatever template they are of"})
	}
	return len(found) == 0
}

// field returns the key within the template that a problem is about.
func field(p config.Problem) string {
	parts := strings.SplitN(p.Key, ".", 4)
	name, _, _ := strings.Cut(parts[min(2, len(parts)-1)], "[")
	return name
}

// inherit merges the extended template into t. A section that extends its own name extends the built-in template of
// that name.
func (l *loader) inherit(t *Template) bool {
	if t.Extends == "" {
		return true
	}
	if t.Extends == t.Name && BuiltIn(t.Name) {
		*t = t.withParent(builtins()[t.Name])
		return true
	}
	origin := l.sections[t.Name].OriginOf("extends")
	if _, ok := l.sections[t.Extends]; ok {
		if l.state[t.Extends] == begun {
			l.refuse(config.Problem{Key: "templates." + t.Name + ".extends", Origin: origin, Value: t.Extends,
				Why: "leads back to this template", Fix: "extend another one, or none"})
			return false
		}
		// Problems of the parent are reported with the parent.
		if !l.load(t.Extends) {
			return false
		}
	}
	parent, ok := l.all[t.Extends]
	if !ok {
		l.refuse(l.noParent(t.Name, t.Extends, origin, l.names()))
		return false
	}
	*t = t.withParent(parent)
	return true
}

// complete reports whether the template, with what it inherits, has everything that its values need.
func (l *loader) complete(t Template) bool {
	problems := missing(t, l.sections[t.Name].OriginOf("runtime"))
	l.refuse(problems...)
	return len(problems) == 0
}

func (l *loader) refuse(p ...config.Problem) { l.report.Problems = append(l.report.Problems, p...) }
