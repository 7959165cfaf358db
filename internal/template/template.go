// Package template says what sandboxes are made of: their driver, base, size, environment, network
// timers, agent and hooks, under a name that a sandbox asks for.
//
// A [Template] is the one definition, in Go and in TOML alike. A [Registry] holds the built-in ones and
// those added to it: [FromConfig] adds the [templates.NAME] sections of a configuration and reports what
// is wrong with them, [Registry.Add] those written in Go. The engine asks the registry what a sandbox's
// instance is made of ([Registry.Prepare]), and what runs hooks which ones there are ([Registry.Hooks]).
// Package base, below, makes the directories that a template's base may name.
package template

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/berthdev/berth/internal/driver"
)

// Template is what sandboxes of one kind are made of. Fields left empty take the server's defaults.
type Template struct {
	Name        string `toml:"-"`
	Extends     string `toml:"extends"` // a template whose fields it has unless it has its own
	Description string `toml:"description"`

	Driver string `toml:"driver"`
	Base   string `toml:"base"` // host, the name of a base, or the absolute path of an image directory
	User   string `toml:"user"` // whom commands run as that do not say: agent or root

	Mounts   []Mount           `toml:"mounts"`
	Env      map[string]string `toml:"env"` // values may be secrets
	Egress   Egress            `toml:"egress"`
	Services map[string]string `toml:"services"` // 127.0.0.1:port inside → URL on the server's side

	Profile     string  `toml:"profile"`              // lite, standard or full
	ProfileType string  `toml:"sandbox_profile_type"` // another name for the same
	CPU         float64 `toml:"cpu"`                  // cores; this and the next three override the profile
	Memory      Size    `toml:"memory"`
	Disk        Disk    `toml:"disk"`
	Processes   int64   `toml:"processes"`

	Timers Timers `toml:"timers"`

	// What to do about an instance that nobody can reach, and after how long: wait, replace or fence.
	Unreachable      string `toml:"unreachable"`
	UnreachableAfter Timer  `toml:"unreachable_after"`

	Image        string  `toml:"image"`
	Runtime      string  `toml:"runtime"`
	AgentCommand Command `toml:"agent_command"`
	Volume       string  `toml:"volume"`
	S3BucketName string  `toml:"s3_bucket_name"` // only the server's own can be used
	S3KeyPrefix  string  `toml:"s3_key_prefix"`  // where versions of workspaces are: a pattern, see DefaultPrefix
	InitFromS3   *bool   `toml:"init_from_s3"`   // false: a new sandbox starts empty, whatever is stored
	Sync         *bool   `toml:"sync"`           // false: workspaces are not saved
	KeepLast     *int    `toml:"keep_last"`      // how many of the newest versions are kept; the server's if left out
	KeepDaily    *int    `toml:"keep_daily"`     // for how many days the newest version of the day is kept
	Layout       string  `toml:"layout"`         // of new versions: packed or plain
	SaveAfter    Timer   `toml:"save_after"`     // quiet time before changes outside turns are saved
	SaveEvery    Timer   `toml:"save_every"`     // how long such changes wait at most
	Turns        int     `toml:"turns"`          // how many may run at once in one sandbox

	MCPServers map[string]MCPServer `toml:"mcp_servers"` // whose tools are there beside the built-in ones

	Hooks        []Hook `toml:"hooks"`         // in the order in which they run
	DefaultHooks *bool  `toml:"default_hooks"` // false: only those of Hooks
}

// Mount shows a directory of the host inside, read only.
type Mount struct {
	Source string `toml:"source"`
	Target string `toml:"target"`
}

// unused are the keys that are kept and that nothing in this version acts on.
var unused = []string{
	"image", "volume",
}

// HasKey reports whether templates have a key of this name.
func HasKey(name string) bool {
	t := reflect.TypeFor[Template]()
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("toml"); tag == name && tag != "-" {
			return true
		}
	}
	return false
}

// Limits is what one sandbox may use, given the profile that it asked for.
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
	l.DiskHard = t.Disk.Kind == DiskLoop
	return l
}

// settle leaves one name for each setting.
func (t *Template) settle() {
	t.Profile, t.ProfileType = cmp.Or(t.Profile, t.ProfileType), ""
}

// clone shares nothing that can be changed.
func (t Template) clone() Template {
	t.Mounts, t.Egress, t.AgentCommand = slices.Clone(t.Mounts), slices.Clone(t.Egress), slices.Clone(t.AgentCommand)
	t.Env, t.Services = maps.Clone(t.Env), maps.Clone(t.Services)
	t.Hooks, t.MCPServers = slices.Clone(t.Hooks), cloneServers(t.MCPServers)
	return t
}

// profiles are the sizes that a sandbox may ask for by name. How many processes they may have is the
// driver's default.
var profiles = map[string]driver.Limits{
	"lite":     {CPU: 0.5, MemoryBytes: 512 * mib, DiskBytes: 2 * gib},
	"standard": {CPU: 1, MemoryBytes: 2 * gib, DiskBytes: 10 * gib},
	"full":     {CPU: 2, MemoryBytes: 4 * gib, DiskBytes: 20 * gib},
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Limits is what a profile allows; those of standard for one that there is not.
func Limits(profile string) driver.Limits {
	if l, ok := profiles[profile]; ok {
		return l
	}
	return profiles["standard"]
}
