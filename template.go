package berth

import (
	"slices"
	"time"

	"github.com/berthdev/berth/internal/template"
)

// Never turns a timer of a [Template] off.
const Never time.Duration = -1

// Template describes one kind of sandbox. An empty field takes the value of the template that Extends names, or else
// the default.
type Template struct {
	Name        string   // its name; it replaces a built-in template of the same name
	Extends     string   // the name of another template, which must be added before this one
	Description string   // for people
	Tenants     []string // the tenants that may use it; empty: all tenants

	Driver string            // empty: Config.Driver
	Base   string            // host, the name of a base, or the absolute path of an image directory
	User   string            // the default user of commands: agent or root
	Env    map[string]string // variables of every command; values may be secrets
	// EnvFrom lists secrets of the tenant and variables of this program's environment. Commands get them with their
	// values; a secret wins. They are replaced in what agents print, and so are variables whose names end like
	// GITHUB_TOKEN or DB_PASSWORD.
	EnvFrom []string
	// KeyEnv lists variables of which the agent needs one. A prompt to a new sandbox without any of them is refused.
	KeyEnv []string
	// NoRedact stores secrets that agents print as they are.
	NoRedact bool

	Mounts []Mount  // directories of the host, read only
	Egress []string // destinations that sandboxes may connect to: host:port, or "all"; empty: none
	// Services maps addresses in the sandbox, as 127.0.0.1:port, to the URLs outside to which Berth forwards them.
	Services map[string]string
	// ServiceHeaders are headers that Berth sets on every request to a service, outside the sandbox: the address in the
	// sandbox → name → value. A value may contain $NAME for a secret of the tenant or a variable of this program.
	ServiceHeaders map[string]map[string]string

	Profile     string  // lite, standard or full; the next four fields override it
	CPU         float64 // number of cores
	MemoryBytes int64   // of all processes together
	DiskBytes   int64   // of all files together
	Processes   int64   // maximum number at once

	Runtime       string   // the agent's runtime: demo, claude-cli, acp or lines
	Agent         string   // the agent of the runtime acp, such as opencode
	AgentCommand  []string // the command that starts the agent; empty: the default
	ParallelTurns int      // maximum number of turns at once in one sandbox; zero: 1
	Model         string   // the model of prompts that name none; empty: the agent's choice
	Models        []string // the models that prompts may name beside Model; empty: any
	// PermissionMode is what the agent may do without asking, by the names of Claude Code; empty: everything is allowed.
	PermissionMode string

	// Idle times after which a sandbox is stopped, archived or deleted, and its maximum age. Zero: the default,
	// Never: off.
	AutoStop, AutoArchive, AutoDelete, MaxAge time.Duration

	S3KeyPrefix string // prefix of versions in the object store: a pattern such as "docs/{tenant}/{sandbox}"
	StartEmpty  bool   // a new sandbox starts empty, even if there are versions under its prefix
	NoSync      bool   // workspaces are not saved

	Hooks          []Hook // in the order in which they run
	NoDefaultHooks bool   // omits the default hooks push and log, which save after a turn and log the end
	// DropHooks names default hooks to omit: pull, store, tally, push or log. Without pull no workspace is restored,
	// without store no message is kept or counted, without tally no tokens are added up in a sandbox's metadata.
	DropHooks []string
}

// Mount shows a directory of the host inside sandboxes, read only.
type Mount struct {
	Source string // the directory on the host
	Target string // the path in the sandbox
}

func (t Template) convert() template.Template {
	out := template.Template{
		Name: t.Name, Extends: t.Extends, Description: t.Description, Tenants: slices.Clone(t.Tenants),
		Driver: t.Driver, Base: t.Base, User: t.User, Env: t.Env, EnvFrom: t.EnvFrom, KeyEnv: t.KeyEnv, Egress: t.Egress, Services: t.services(),
		Profile: t.Profile, CPU: t.CPU, Memory: template.Size(t.MemoryBytes), Disk: template.Disk{Bytes: t.DiskBytes}, Processes: t.Processes,
		Runtime: t.Runtime, Agent: t.Agent, AgentCommand: t.AgentCommand, Model: t.Model, Models: t.Models, Permissions: t.PermissionMode, Turns: t.ParallelTurns,
		Timers: template.Timers{
			AutoStop: timer(t.AutoStop), AutoArchive: timer(t.AutoArchive), AutoDelete: timer(t.AutoDelete), MaxAge: timer(t.MaxAge),
		},
		S3KeyPrefix: t.S3KeyPrefix, DropHooks: slices.Clone(t.DropHooks),
	}
	if len(t.Tenants) == 0 {
		out.Tenants = []string{template.AllTenants}
	}
	no := false
	if t.NoRedact {
		out.Redact = &no
	}
	if t.StartEmpty {
		out.InitFromS3 = &no
	}
	if t.NoSync {
		out.Sync = &no
	}
	if t.NoDefaultHooks {
		out.DefaultHooks = &no
	}
	for _, m := range t.Mounts {
		out.Mounts = append(out.Mounts, template.Mount{Source: m.Source, Target: m.Target})
	}
	for _, h := range t.Hooks {
		out.Hooks = append(out.Hooks, h.convert())
	}
	return out
}

func (t Template) services() map[string]template.Service {
	all := map[string]template.Service{}
	for inside, url := range t.Services {
		all[inside] = template.Service{URL: url}
	}
	for inside, headers := range t.ServiceHeaders {
		all[inside] = template.Service{URL: t.Services[inside], Headers: headers}
	}
	return all
}

func timer(d time.Duration) template.Timer {
	switch {
	case d == 0:
		return template.Timer{}
	case d < 0:
		return template.After(0)
	}
	return template.After(d)
}
