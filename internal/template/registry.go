package template

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template/base"
	"github.com/berthdev/berth/internal/template/program"
)

// Options configure a Registry.
type Options struct {
	Default string   // name of the default template; empty: default
	Driver  string   // default driver of templates; empty: local
	Profile string   // default profile of templates; empty: standard
	Drivers []string // names of all drivers; nil: any name is valid
	DataDir string   // directory with the bases and programs
	Bucket  string   // bucket of the server's object store; empty: it has none

	LookupEnv func(name string) (value string, ok bool) // the server's environment; nil: os.LookupEnv

	KeepLast, KeepDaily  int           // default for the versions to keep; both zero: all
	SaveAfter, SaveEvery time.Duration // default times to save; zero: as sandbox.DefaultPolicy
}

// Registry holds templates by name. It is safe for concurrent use once all templates are added.
type Registry struct {
	o       Options
	all     map[string]Template
	secrets func(ctx context.Context, tenant string, names []string) (map[string]string, error) // see UseSecrets
}

// New returns a registry with the built-in templates.
func New(o Options) *Registry {
	o.Default, o.Driver, o.Profile = cmp.Or(o.Default, "default"), cmp.Or(o.Driver, "local"), cmp.Or(o.Profile, "standard")
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	r := &Registry{o: o, all: map[string]Template{}}
	for name, t := range builtins() {
		t.Tenants = []string{AllTenants}
		r.all[name] = r.filled(t)
	}
	return r
}

// Default returns the name of the default template.
func (r *Registry) Default() string { return r.o.Default }

// Bucket returns the bucket of the server's object store, or the empty string.
func (r *Registry) Bucket() string { return r.o.Bucket }

// filled returns t with the server's defaults in its empty fields.
func (r *Registry) filled(t Template) Template {
	t.Driver = cmp.Or(t.Driver, r.o.Driver)
	t.Base = cmp.Or(t.Base, base.Host)
	t.User = cmp.Or(t.User, guest.Agent)
	t.Profile = cmp.Or(t.Profile, r.o.Profile)
	if t.Tenants == nil {
		t.Tenants = []string{defaultTenant}
	}
	return t
}

// Add adds a template, or replaces the one with the same name. The error for an invalid template lists all problems.
func (r *Registry) Add(t Template) error {
	t = t.clone()
	problems := r.check(t, func(...string) string { return "" })
	t.mergeProfile()
	if parent, ok := r.all[t.Extends]; ok {
		t = t.withParent(parent)
	} else if t.Extends != "" {
		problems = append(problems, r.noParent(t.Name, t.Extends, "", r.Names()))
	}
	problems = append(problems, missing(t, "")...)
	if len(problems) == 0 {
		r.all[t.Name] = r.filled(t)
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return fault.Errorf("add template", api.CodeInvalidConfig, "%s", strings.Join(lines, "\n"))
}

func (r *Registry) noParent(name, extends, origin string, known []string) config.Problem {
	return config.Problem{Key: "templates." + name + ".extends", Origin: origin, Value: extends,
		Why: "is no template", Fix: "write one of: " + strings.Join(known, ", ")}
}

// Lookup returns a template with the server's defaults. The error for an unknown name has CodeUnknownTemplate.
func (r *Registry) Lookup(name string) (Template, error) {
	t, ok := r.all[name]
	if !ok {
		e := fault.Errorf("find template", api.CodeUnknownTemplate, "there is no template %q; there are: %s", name, strings.Join(r.Names(), ", "))
		return t, e
	}
	return t.clone(), nil
}

// Names returns the names of all templates, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.all)) }

// Spec returns the template, driver and profile of a sandbox of the template.
func (r *Registry) Spec(name string) sandbox.Spec {
	t := r.all[name]
	return sandbox.Spec{Template: t.Name, Driver: t.Driver, Profile: t.Profile}
}

// Prepare sets the fields of spec that come from the sandbox's template.
func (r *Registry) Prepare(s sandbox.Sandbox, spec *driver.Spec) error {
	t, err := r.Lookup(s.Spec.Template)
	if err != nil {
		return &fault.Error{Op: "prepare sandbox", Code: api.CodeUnknownTemplate, Err: err,
			Hint: "The server's configuration had it once: put its section back, or delete the sandbox."}
	}
	r.fill(spec, t, cmp.Or(s.Spec.Profile, t.Profile))
	return nil
}

func (r *Registry) fill(spec *driver.Spec, t Template, profile string) {
	spec.Limits = t.Limits(profile)
	spec.Base = r.baseDir(t.Base)
	spec.Egress = t.Egress
	spec.Services = t.ServiceURLs()
	spec.Mounts = r.mounts(t)
}

// mounts returns the mounts of the template, and those of its agent's programs unless the template uses the place.
func (r *Registry) mounts(t Template) []driver.Mount {
	all := make([]driver.Mount, len(t.Mounts))
	for i, m := range t.Mounts {
		all[i] = driver.Mount{Source: filepath.Clean(m.Source), Target: filepath.Clean(m.Target)}
	}
	if r.o.DataDir == "" {
		return all
	}
	for _, p := range t.programs() {
		taken := func(m driver.Mount) bool { return within(m.Target, p.Mount()) || within(p.Mount(), m.Target) }
		if !slices.ContainsFunc(all, taken) {
			all = append(all, driver.Mount{Source: program.Dir(r.o.DataDir, p.Name), Target: p.Mount()})
		}
	}
	return all
}

// baseDir returns the base in the form that drivers take: host, or the path of a directory.
func (r *Registry) baseDir(name string) string {
	if name == base.Host || filepath.IsAbs(name) {
		return name
	}
	return base.Dir(r.o.DataDir, name)
}

// UseSecrets sets the function that returns the values of a tenant's secrets with the names.
func (r *Registry) UseSecrets(f func(ctx context.Context, tenant string, names []string) (map[string]string, error)) {
	r.secrets = f
}

// Env returns the environment of commands in the tenant's sandboxes of the template. It consists of the proxy's address
// if there is a proxy, the tenant's secrets and the server's variables in EnvFrom, and the template's own variables. The
// latter take precedence.
func (r *Registry) Env(ctx context.Context, tenant, name string) (map[string]string, error) {
	t := r.all[name]
	env := egress.Env(t.Egress)
	if env == nil {
		env = map[string]string{}
	}
	given, err := r.variables(ctx, tenant, t, t.EnvFrom)
	if err != nil {
		return nil, err
	}
	maps.Copy(env, given)
	maps.Copy(env, t.Env)
	return env, nil
}

// MissingKey returns the name of the key that the template's agent lacks in a new sandbox of the tenant, or the empty
// string: a value in the headers of a service, or else the first variable of KeyEnv if none of them has a value. own are
// variables that the sandbox has in addition to the template's.
func (r *Registry) MissingKey(ctx context.Context, tenant, name string, own map[string]string) (string, error) {
	t := r.all[name]
	outside, err := r.variables(ctx, tenant, t, t.HeaderNames())
	if err != nil {
		return "", err
	}
	for _, variable := range t.HeaderNames() {
		if outside[variable] == "" {
			return variable, nil
		}
	}
	if len(t.KeyEnv) == 0 {
		return "", nil
	}
	env, err := r.Env(ctx, tenant, name)
	if err != nil {
		return "", err
	}
	for _, variable := range t.KeyEnv {
		if own[variable] != "" || env[variable] != "" {
			return "", nil
		}
	}
	return t.KeyEnv[0], nil
}

// ServiceHeaders returns the headers of the template's services for the tenant's sandboxes; see
// [Template.ServiceHeaders].
func (r *Registry) ServiceHeaders(ctx context.Context, tenant, name string) (map[string]map[string]string, error) {
	t := r.all[name]
	values, err := r.variables(ctx, tenant, t, t.HeaderNames())
	return t.ServiceHeaders(values), err
}

// variables returns the values of the names in a template: the tenant's secrets, and for names without a secret the
// server's variables. Only the default tenant and tenants that the template lists by name get the server's variables.
// Names without a value are left out.
func (r *Registry) variables(ctx context.Context, tenant string, t Template, names []string) (map[string]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	values := map[string]string{}
	if tenant == defaultTenant || slices.Contains(t.Tenants, tenant) {
		values = r.serverEnv(names)
	}
	if r.secrets == nil {
		return values, nil
	}
	own, err := r.secrets(ctx, tenant, names)
	if err != nil {
		return nil, err
	}
	maps.Copy(values, own)
	return values, nil
}

func (r *Registry) serverEnv(names []string) map[string]string {
	env := map[string]string{}
	for _, name := range names {
		if value, ok := r.o.LookupEnv(name); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

// User returns the default user for commands in sandboxes of the template.
func (r *Registry) User(name string) string { return cmp.Or(r.all[name].User, guest.Agent) }

// Policy returns the policy for the kind of owner, changed by the sandbox's template.
func (r *Registry) Policy(s sandbox.Sandbox) sandbox.Policy {
	t, p := r.all[s.Spec.Template], sandbox.DefaultPolicy(s.Owner.Kind)
	p.Timers = t.Timers.Over(p.Timers)
	p.Unreachable = sandbox.Unseen(t.Unreachable)
	p.UnreachableAfter = t.UnreachableAfter.or(p.UnreachableAfter)
	p.SaveAfter = t.SaveAfter.or(cmp.Or(r.o.SaveAfter, p.SaveAfter))
	p.SaveEvery = max(p.SaveAfter, t.SaveEvery.or(cmp.Or(r.o.SaveEvery, p.SaveEvery)))
	return p
}

// Secrets returns the values of all environments, including those of MCP servers, of the headers of services, and the
// signing keys of webhooks, for the redactor of logs.
func (r *Registry) Secrets() (values []string) {
	for _, t := range r.all {
		for _, v := range t.Env {
			values = append(values, v)
		}
		values = slices.AppendSeq(values, maps.Values(r.serverEnv(append(t.HeaderNames(), t.EnvFrom...))))
		for _, s := range t.Services {
			values = slices.AppendSeq(values, maps.Values(s.Headers))
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
