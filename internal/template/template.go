// Package template defines kinds of sandboxes: driver, base, size, environment, network, timers, agent and hooks. A
// sandbox refers to its template by name.
//
// A [Template] is the definition, in Go or in TOML. A [Registry] holds the built-in templates and added ones:
// [FromConfig] adds the [templates.NAME] sections of a configuration and reports their problems, [Registry.Add] adds
// templates written in Go. [Registry.Prepare] gives the engine the parts of a sandbox's instance, and [Registry.Hooks]
// gives the hook runner the hooks. Package base builds the directories that a template can use as its base.
package template

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/berthdev/berth/internal/driver"
)

// Template defines one kind of sandbox. Empty fields take the server's defaults.
type Template struct {
	Name        string `toml:"-"`
	Extends     string `toml:"extends"` // name of the parent template, from which unset fields are taken
	Description string `toml:"description"`

	Tenants []string `toml:"tenants"` // tenants that may use it; "*": all. Not inherited

	Driver string `toml:"driver"`
	Base   string `toml:"base"` // host, the name of a base, or the absolute path of an image directory
	User   string `toml:"user"` // default user of commands: agent or root

	Mounts   []Mount            `toml:"mounts"`
	Env      map[string]string  `toml:"env"`      // values may be secrets
	EnvFrom  []string           `toml:"env_from"` // names of the server's variables that are passed to sandboxes
	KeyEnv   []string           `toml:"key_env"`  // variables of which the agent needs one: its key, or what replaces a key
	Redact   *bool              `toml:"redact"`   // false: secrets that agents print are stored as they are
	Egress   Egress             `toml:"egress"`
	Services map[string]Service `toml:"services"` // by the address inside, 127.0.0.1:port

	Profile     string  `toml:"profile"`              // lite, standard or full
	ProfileType string  `toml:"sandbox_profile_type"` // another name for profile
	CPU         float64 `toml:"cpu"`                  // cores; CPU, Memory, Disk and Processes override the profile
	Memory      Size    `toml:"memory"`
	Disk        Disk    `toml:"disk"`
	Processes   int64   `toml:"processes"`

	Timers Timers `toml:"timers"`

	// The action for an unreachable instance (wait, replace or fence), and the time after which the server takes it.
	Unreachable      string `toml:"unreachable"`
	UnreachableAfter Timer  `toml:"unreachable_after"`

	Image        string  `toml:"image"`
	Runtime      string  `toml:"runtime"`
	Agent        string  `toml:"agent"` // the agent of the runtime acp
	AgentCommand Command `toml:"agent_command"`
	PromptFile   string  `toml:"prompt_file"`     // a file on this machine with the agent's instructions; empty: Berth's
	Permissions  string  `toml:"permission_mode"` // what the agent may do without asking, by the names of Claude Code's permission modes
	Volume       string  `toml:"volume"`
	S3BucketName string  `toml:"s3_bucket_name"` // informational: workspaces are always saved in the server's object store
	S3KeyPrefix  string  `toml:"s3_key_prefix"`  // pattern of the prefix for the versions of workspaces; see DefaultPrefix
	InitFromS3   *bool   `toml:"init_from_s3"`   // false: a new sandbox starts empty, even if versions exist
	Sync         *bool   `toml:"sync"`           // false: workspaces are not saved
	KeepLast     *int    `toml:"keep_last"`      // number of newest versions to keep; both nil: the server's policy
	KeepDaily    *int    `toml:"keep_daily"`     // number of days of which the newest version is kept
	Layout       string  `toml:"layout"`         // of new versions: packed or plain
	SaveAfter    Timer   `toml:"save_after"`     // quiet time before changes outside turns are saved
	SaveEvery    Timer   `toml:"save_every"`     // longest time that such changes wait
	Turns        int     `toml:"turns"`          // maximum of simultaneous turns in one sandbox

	Model  string   `toml:"model"`  // for prompts and agents that name none; empty: the agent's choice
	Models []string `toml:"models"` // that prompts and agents may name beside Model; empty: any

	MCPServers map[string]MCPServer `toml:"mcp_servers"` // by name; agents use their tools beside the built-in ones

	Hooks        []Hook `toml:"hooks"`         // in the order in which they run
	DefaultHooks *bool  `toml:"default_hooks"` // false: without the defaults that are hook.Optional
	// DropHooks names default hooks that the template does not have.
	DropHooks []string `toml:"drop_hooks"`
}

// Mount is a directory of the host that is visible inside, read-only.
type Mount struct {
	Source string `toml:"source"`
	Target string `toml:"target"`
}

// unused are the keys that are accepted and have no effect in this version.
var unused = []string{
	"image", "volume",
}

// HasKey reports whether templates have a TOML key with this name.
func HasKey(name string) bool {
	t := reflect.TypeFor[Template]()
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("toml"); tag == name && tag != "-" {
			return true
		}
	}
	return false
}

// Limits returns the limits of a sandbox with the requested profile.
func (t Template) Limits(profile string) driver.Limits {
	l := Limits(profile)
	if t.CPU > 0 {
		l.CPU = t.CPU
	}
	if t.Memory > 0 {
		l.MemoryBytes = int64(t.Memory)
	}
	if t.Disk.Bytes > 0 {
		l.DiskBytes = t.Disk.Bytes
	}
	if t.Processes > 0 {
		l.Processes = t.Processes
	}
	l.DiskHard, l.DiskSoft = t.Disk.Kind == DiskLoop, t.Disk.Kind == DiskSoft
	return l
}

// mergeProfile moves the value of sandbox_profile_type to Profile, which is the same setting.
func (t *Template) mergeProfile() {
	t.Profile, t.ProfileType = cmp.Or(t.Profile, t.ProfileType), ""
}

// clone returns a copy of t that shares no map or slice with it.
func (t Template) clone() Template {
	t.Tenants, t.EnvFrom, t.KeyEnv = slices.Clone(t.Tenants), slices.Clone(t.EnvFrom), slices.Clone(t.KeyEnv)
	t.Models = slices.Clone(t.Models)
	t.Mounts, t.Egress, t.AgentCommand = slices.Clone(t.Mounts), slices.Clone(t.Egress), slices.Clone(t.AgentCommand)
	t.Env, t.Services = maps.Clone(t.Env), cloneServices(t.Services)
	t.Hooks, t.MCPServers = slices.Clone(t.Hooks), cloneServers(t.MCPServers)
	return t
}

// profiles are the sizes that a sandbox can request by name. They do not limit the number of processes; the driver has
// a default for it.
var profiles = map[string]driver.Limits{
	"lite":     {CPU: 0.5, MemoryBytes: 512 * mib, DiskBytes: 2 * gib},
	"standard": {CPU: 1, MemoryBytes: 2 * gib, DiskBytes: 10 * gib},
	"full":     {CPU: 2, MemoryBytes: 4 * gib, DiskBytes: 20 * gib},
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Limits returns the limits of a profile. An unknown profile has the limits of standard.
func Limits(profile string) driver.Limits {
	if l, ok := profiles[profile]; ok {
		return l
	}
	return profiles["standard"]
}
