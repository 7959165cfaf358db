package template

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template/base"
)

// checker collects the problems of one template.
type checker struct {
	Template
	in       *Registry
	origin   func(path ...string) string
	problems []config.Problem
}

// check returns the problems of the values that the template sets. Inherited values are not checked again.
func (r *Registry) check(t Template, origin func(path ...string) string) []config.Problem {
	c := &checker{Template: t, in: r, origin: origin}
	if err := config.CheckName(t.Name); err != nil {
		c.refuse("", t.Name, "has no usable name", "write up to 63 of a-z, 0-9, '-' and '_', beginning with a letter or digit")
	}
	c.checkTenants()
	c.checkWords()
	c.checkBase()
	c.checkMounts()
	c.checkEnv()
	c.checkEgress()
	c.checkServices()
	c.checkSizes()
	c.checkPrefix()
	c.checkHooks()
	c.checkMCPServers()
	c.checkModels()
	c.checkPrompt()
	c.checkSpec()
	return c.problems
}

// checkSpec checks the limits that apply to all drivers.
func (c *checker) checkSpec() {
	spec := driver.Spec{Key: driver.Key{Sandbox: "check", Incarnation: 1}}
	c.in.fill(&spec, c.Template, c.Profile)
	spec.Limits.CPU = c.CPU
	if err := spec.Validate(); err != nil && len(c.problems) == 0 {
		c.refuse("", "", "cannot be used: "+strings.TrimPrefix(err.Error(), driver.ErrInvalid.Error()+": "), "write less of it, in plain text")
	}
}

// serverAgents are the agents that sandbox-agent can start.
var serverAgents = []string{"claude", "codex", "opencode", "pi"}

// missing returns the problems of a template whose values do not fit together.
func missing(t Template, origin string) (problems []config.Problem) {
	refuse := func(key, value, why, fix string) {
		problems = append(problems, config.Problem{Key: "templates." + t.Name + "." + key, Origin: origin, Value: value, Why: why, Fix: fix})
	}
	command := len(t.AgentCommand) > 0
	switch {
	case t.Runtime == RuntimeLines && !command:
		refuse("runtime", t.Runtime, "needs a program to run", `write agent_command = ["PROGRAM", "ARGUMENT"]`)
	case t.Runtime == RuntimeServer && !slices.Contains(serverAgents, t.Agent):
		refuse("agent", t.Agent, "is no agent that sandbox-agent can start", "write one of: "+strings.Join(serverAgents, ", "))
	case t.Runtime == RuntimeServer && command:
		refuse("agent_command", strings.Join(t.AgentCommand, " "), "has no effect: sandbox-agent starts the agent", "leave it out, or use the runtime acp")
	case t.Runtime == RuntimeACP && !command && t.Agent == "":
		refuse("runtime", t.Runtime, "needs an agent", `write agent = "NAME" with one of: `+strings.Join(profile.Names(), ", ")+`; or agent_command = ["PROGRAM", "ARGUMENT"]`)
	case t.Runtime != RuntimeACP && t.Runtime != RuntimeServer && t.Agent != "":
		refuse("agent", t.Agent, "is only for the runtimes acp and sandbox-agent", `write runtime = "acp", or leave it out`)
	case t.Runtime != RuntimeServer && t.PromptFile != "":
		refuse("prompt_file", t.PromptFile, "is only for the runtime sandbox-agent", "leave it out; other agents read their own files, such as CLAUDE.md or AGENTS.md in the workspace")
	case t.Runtime == RuntimeACP, t.Runtime == RuntimeServer:
		p, _ := profile.Find(t.Agent)
		if _, ok := p.Settings(t.Permissions); !ok {
			refuse("permission_mode", t.Permissions, "is no mode that "+p.Title+" can be held to", "leave it out, or use another agent")
		}
	}
	return problems
}

// refuse adds a problem with the value of a key. The key may name a part of the value, such as hooks[1].url.
func (c *checker) refuse(key, value, why, fix string) {
	p := config.Problem{Key: "templates." + c.Name, Origin: c.origin(), Value: value, Why: why, Fix: fix}
	if key != "" {
		p.Key += "." + key
		first, _, _ := strings.Cut(key, "[")
		p.Origin = c.origin(strings.Split(first, ".")...)
	}
	c.problems = append(c.problems, p)
}

// checkWords checks the fields with a fixed set of values.
func (c *checker) checkWords() {
	for _, f := range []struct {
		key, value, why string
		known           []string
	}{
		{"driver", c.Driver, "is no driver of this Berth", c.in.o.Drivers},
		{"user", c.User, "is no user of sandboxes", []string{guest.Agent, guest.Root}},
		{"profile", c.Profile, "is no profile", sandbox.Profiles},
		{"sandbox_profile_type", c.ProfileType, "is no profile", sandbox.Profiles},
		{"runtime", c.Runtime, "is no runtime of this Berth", runtimes},
		{"unreachable", c.Unreachable, "is not one of the choices", []string{"wait", "replace", "fence"}},
		{"disk", c.Disk.Kind, "is not one of the choices", []string{DiskAuto, DiskSoft, DiskLoop}},
		{"agent", c.Agent, "is no agent that this Berth knows", profile.Names()},
		{"permission_mode", c.Permissions, "is no permission mode", permissionModes},
		{"layout", c.Layout, "is no layout of versions", []string{"packed", "plain"}},
	} {
		if f.value != "" && f.known != nil && !slices.Contains(f.known, f.value) {
			c.refuse(f.key, f.value, f.why, "write one of: "+strings.Join(f.known, ", "))
		}
	}
	if a, b := c.Profile, c.ProfileType; a != "" && b != "" && a != b {
		c.refuse("sandbox_profile_type", b, "differs from profile, which is the same setting", "write one of them")
	}
}

func (c *checker) checkSizes() {
	const fix = "write a number above zero, or leave it to the profile"
	switch {
	case c.CPU < 0:
		c.refuse("cpu", strconv.FormatFloat(c.CPU, 'g', -1, 64), "is negative", fix)
	case c.CPU > 0 && c.CPU < 0.01:
		c.refuse("cpu", strconv.FormatFloat(c.CPU, 'g', -1, 64), "is less than a hundredth of a core", fix)
	}
	if c.Memory < 0 || c.Memory > 0 && c.Memory < minMemory {
		c.refuse("memory", c.Memory.String(), "is too small for a sandbox to run", "write at least 16MiB")
	}
	if c.Disk.Bytes < 0 || c.Disk.Bytes > 0 && c.Disk.Bytes < minDisk {
		c.refuse("disk", Size(c.Disk.Bytes).String(), "is too small for a sandbox to run", "write at least 16MiB")
	}
	if c.Processes < 0 {
		c.refuse("processes", strconv.FormatInt(c.Processes, 10), "is negative", fix)
	}
	for key, n := range map[string]*int{"keep_last": c.KeepLast, "keep_daily": c.KeepDaily} {
		if n != nil && (*n < 0 || *n > config.MostKept) {
			c.refuse(key, strconv.Itoa(*n), "is no number of versions", "write a number up to a million; 0 in both keeps everything")
		}
	}
	if c.Turns < 0 {
		c.refuse("turns", strconv.Itoa(c.Turns), "is negative", fix)
	}
}

func (c *checker) checkModels() {
	const fix = `write names such as models = ["opus", "sonnet"]`
	if err := sandbox.CheckModel(c.Model); err != nil {
		c.refuse("model", c.Model, "cannot be used: "+err.Error(), `write a name such as model = "opus"`)
	}
	for i, name := range c.Models {
		key := fmt.Sprintf("models[%d]", i+1)
		if err := sandbox.CheckModel(name); err != nil {
			c.refuse(key, name, "cannot be used: "+err.Error(), fix)
		} else if name == "" {
			c.refuse(key, name, "is empty", fix)
		}
	}
}

const (
	minMemory = 16 * mib
	minDisk   = 16 * mib
)

func (c *checker) checkBase() {
	name := c.Base
	switch {
	case name == "" || name == base.Host:
	case filepath.IsAbs(name):
		if why := c.exposes(name); why != "" {
			c.refuse("base", name, why, "write host, the name of a base, or an image directory")
		} else if err := base.Check(name); err != nil {
			c.refuse("base", name, "cannot be used: "+err.Error(), "write the path of a directory that holds a whole system, made by debootstrap for example")
		}
	case base.CheckName(name) != nil:
		c.refuse("base", name, "is neither host, nor the name of a base, nor an absolute path", "write base = \"host\", for example")
	case errors.Is(base.Check(base.Dir(c.in.o.DataDir, name)), fs.ErrPermission):
		c.refuse("base", name, "may not be read by this user", "run as the owner of "+c.in.o.DataDir+", or build the base anew with --force")
	case base.Check(base.Dir(c.in.o.DataDir, name)) != nil:
		c.refuse("base", name, "is no base on this machine", "make it with 'berth template build-base "+name+"', or write one of: "+strings.Join(c.bases(), ", "))
	}
}

// bases returns the valid values of the field base, except for absolute paths.
func (c *checker) bases() []string {
	names := []string{base.Host}
	found, _ := base.List(c.in.o.DataDir) // bases that cannot be read are left out
	for _, b := range found {
		names = append(names, b.Name)
	}
	return names
}

// exposes returns the reason why a directory of the host must not be visible in sandboxes, or the empty string if it
// may be.
func (c *checker) exposes(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = filepath.Clean(dir)
	}
	data, err := filepath.EvalSymlinks(c.in.o.DataDir)
	if err != nil {
		data = filepath.Clean(c.in.o.DataDir)
	}
	switch {
	case real == "/":
		return "is the whole host"
	case within(real, "/proc"), within(real, "/sys"), within(real, "/dev"):
		return "is the host's kernel and devices"
	case c.in.o.DataDir != "" && within(data, real):
		return "holds the server's data directory, with its keys and every sandbox"
	case c.in.o.DataDir != "" && within(real, data) && !slices.ContainsFunc(shareable, func(name string) bool { return within(real, filepath.Join(data, name)) }):
		return "lies in the server's data directory, among its keys and sandboxes"
	}
	return ""
}

// shareable are the directories below the data directory that sandboxes may see.
var shareable = []string{"bases", "programs", "tools"}

// within reports whether path is root or is below root. Both paths must be clean.
func within(path, root string) bool {
	return path == root || root == "/" || strings.HasPrefix(path, root+"/")
}

func (c *checker) checkEnv() {
	if err := sandbox.CheckEnv(c.Env); err != nil {
		c.refuse("env", "", "cannot be used: "+err.Error(), "correct it")
	}
	for i, name := range c.KeyEnv {
		if sandbox.CheckEnv(map[string]string{name: ""}) != nil {
			c.refuse(fmt.Sprintf("key_env[%d]", i+1), name, "is no name of a variable", `write names, such as key_env = ["ANTHROPIC_API_KEY"]`)
		}
	}
	for i, name := range c.EnvFrom {
		key := fmt.Sprintf("env_from[%d]", i+1)
		switch {
		case strings.HasPrefix(name, "BERTH_"):
			c.refuse(key, name, "is a setting of the server", "leave it out")
		case sandbox.CheckEnv(map[string]string{name: ""}) != nil:
			c.refuse(key, name, "is no name of a variable", `write names, such as env_from = ["ANTHROPIC_API_KEY"]`)
		}
	}
}

func (c *checker) checkEgress() {
	for i, rule := range c.Egress {
		if _, err := egress.ParseRules(c.Egress[i : i+1]); err != nil {
			why := strings.TrimPrefix(err.Error(), fmt.Sprintf("egress rule %q: ", rule))
			c.refuse(fmt.Sprintf("egress[%d]", i+1), rule, "is no rule: "+why, `write host:port or *.host:port, or egress = "all"`)
		}
	}
}

// isDir returns the reason why path is not a readable directory, or the empty string if it is.
func isDir(path string) string {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return "does not exist"
	case err != nil:
		return "cannot be looked at"
	case !info.IsDir():
		return "is not a directory"
	}
	return ""
}
