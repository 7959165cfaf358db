package template

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template/base"
)

// Options is what a Registry is made of.
type Options struct {
	Default string   // the template of sandboxes that name none; empty: default
	Driver  string   // of templates that name none; empty: local
	Profile string   // of templates that name none; empty: standard
	Drivers []string // those that there are; nil: any
	DataDir string   // where bases and programs are
	Bucket  string   // of the server's object store; empty: it has none

	KeepLast, KeepDaily  int           // versions that are kept where a template does not say; both zero: all
	SaveAfter, SaveEvery time.Duration // of templates that say nothing; zero: as sandbox.DefaultPolicy
}

// Registry holds templates by name. Templates are added before it is used; it is then safe for
// concurrent use.
type Registry struct {
	Options
	all map[string]Template
}

// New makes a registry of the built-in templates.
func New(o Options) *Registry {
	o.Default, o.Driver, o.Profile = cmp.Or(o.Default, "default"), cmp.Or(o.Driver, "local"), cmp.Or(o.Profile, "standard")
	r := &Registry{Options: o, all: map[string]Template{}}
	for name, t := range builtins(o.DataDir) {
		r.all[name] = r.filled(t)
	}
	return r
}

// filled puts the server's defaults where the template says nothing.
func (r *Registry) filled(t Template) Template {
	t.Driver = cmp.Or(t.Driver, r.Driver)
	t.Base = cmp.Or(t.Base, base.Host)
	t.User = cmp.Or(t.User, guest.Agent)
	t.Profile = cmp.Or(t.Profile, r.Profile)
	return t
}

// Add makes a template known, in the place of one of the same name. It refuses one that could not be
// used, with all the reasons.
func (r *Registry) Add(t Template) error {
	t = t.clone()
	problems := r.check(t, func(...string) string { return "" })
	t.settle()
	if parent, ok := r.all[t.Extends]; ok {
		t = t.over(parent)
	} else if t.Extends != "" {
		problems = append(problems, r.noParent(t.Name, t.Extends, "", r.Names()))
	}
	if len(problems) == 0 {
		r.all[t.Name] = r.filled(t)
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return sandbox.Errorf("add template", api.CodeInvalidConfig, "%s", strings.Join(lines, "\n"))
}

func (r *Registry) noParent(name, extends, origin string, known []string) config.Problem {
	return config.Problem{Key: "templates." + name + ".extends", Origin: origin, Value: extends,
		Why: "is no template", Fix: "write one of: " + strings.Join(known, ", ")}
}

// Lookup finds a template, complete with the server's defaults. An unknown one is CodeUnknownTemplate.
func (r *Registry) Lookup(name string) (Template, error) {
	t, ok := r.all[name]
	if !ok {
		e := sandbox.Errorf("find template", api.CodeUnknownTemplate, "there is no template %q; there are: %s", name, strings.Join(r.Names(), ", "))
		return t, e
	}
	return t.clone(), nil
}

// Names lists the templates.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.all)) }

// Spec is what sandboxes of the template are unless they say otherwise.
func (r *Registry) Spec(name string) sandbox.Spec {
	t := r.all[name]
	return sandbox.Spec{Template: t.Name, Driver: t.Driver, Profile: t.Profile}
}

// Prepare fills in what the sandbox's instance is made of.
func (r *Registry) Prepare(s sandbox.Sandbox, spec *driver.Spec) error {
	t, err := r.Lookup(s.Spec.Template)
	if err != nil {
		return &sandbox.Error{Op: "prepare sandbox", Code: api.CodeUnknownTemplate, Err: err,
			Hint: "The server's configuration had it once: put its section back, or delete the sandbox."}
	}
	r.fill(spec, t, cmp.Or(s.Spec.Profile, t.Profile))
	return nil
}

func (r *Registry) fill(spec *driver.Spec, t Template, profile string) {
	spec.Limits = t.Limits(profile)
	spec.Base = r.baseDir(t.Base)
	spec.Egress = t.Egress
	spec.Services = t.Services
	spec.Mounts = make([]driver.Mount, len(t.Mounts))
	for i, m := range t.Mounts {
		spec.Mounts[i] = driver.Mount{Source: filepath.Clean(m.Source), Target: filepath.Clean(m.Target)}
	}
}

// baseDir is a base as drivers know it: host, or the directory that it is.
func (r *Registry) baseDir(name string) string {
	if name == base.Host || filepath.IsAbs(name) {
		return name
	}
	return base.Dir(r.DataDir, name)
}

// Env is what every command in sandboxes of the template has in its environment: the way to the proxy,
// where there is one, under what the template says.
func (r *Registry) Env(name string) map[string]string {
	t := r.all[name]
	env := egress.Env(t.Egress)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, t.Env)
	return env
}

// User is whom commands run as that do not say.
func (r *Registry) User(name string) string { return cmp.Or(r.all[name].User, guest.Agent) }

// Policy is what the sandbox's template says over what its kind of owner has.
func (r *Registry) Policy(s sandbox.Sandbox) sandbox.Policy {
	t, p := r.all[s.Spec.Template], sandbox.DefaultPolicy(s.Owner.Kind)
	p.Timers = t.Timers.Over(p.Timers)
	p.Unreachable = sandbox.Unseen(t.Unreachable)
	p.UnreachableAfter = t.UnreachableAfter.or(p.UnreachableAfter)
	p.SaveAfter = t.SaveAfter.or(cmp.Or(r.SaveAfter, p.SaveAfter))
	p.SaveEvery = max(p.SaveAfter, t.SaveEvery.or(cmp.Or(r.SaveEvery, p.SaveEvery)))
	return p
}

// Secrets are the values of all environments, those of MCP servers too, and those that webhooks are signed with, for a redactor to
// know.
func (r *Registry) Secrets() (values []string) {
	for _, t := range r.all {
		for _, v := range t.Env {
			values = append(values, v)
		}
		for _, s := range t.MCPServers {
			values = slices.AppendSeq(values, maps.Values(s.Env))
		}
		for _, h := range t.Hooks {
			if h.Secret != "" {
				values = append(values, h.Secret)
			}
		}
	}
	return values
}
