package template

import (
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/template/program"
)

// The runtimes that templates can name: how Berth talks to the agent.
const (
	RuntimeDemo   = "demo"
	RuntimeClaude = "claude-cli"
)

var runtimes = []string{RuntimeClaude, RuntimeDemo}

// claudeMount is where the runtime of Claude Code expects the program inside.
const claudeMount = "/opt/claude"

// builtins are the templates that are always there. What they leave open, filled adds.
func builtins(dataDir string) map[string]Template {
	no := false
	claude := Template{
		Name: program.ClaudeCode.Name, Runtime: RuntimeClaude, Description: "Claude Code, installed by 'berth template install claude_code'",
		Egress: Egress{"api.anthropic.com:443"},
	}
	if dataDir != "" {
		claude.Mounts = []Mount{{Source: program.Dir(dataDir, claude.Name), Target: claudeMount}}
	}
	github := claude.clone()
	github.Name, github.Description = "github", "Claude Code in a clone of the repository GITHUB_REPOSITORY"
	github.Egress = append(github.Egress, "github.com:443")
	github.Hooks = []Hook{{Phase: string(hook.OnColdStart), Builtin: hook.Clone}}
	github.Env = hook.GitEnv("https://github.com")
	return map[string]Template{
		"default":     {Name: "default", Runtime: RuntimeDemo, Description: "A sandbox on this machine with the host's programs"},
		"none":        {Name: "none", Runtime: RuntimeDemo, Description: "The same without hooks", DefaultHooks: &no},
		"demo":        {Name: "demo", Runtime: RuntimeDemo, Description: "A small agent that needs no key and no network"},
		"claude_code": claude,
		"github":      github,
	}
}

// BuiltIn reports whether a template of that name is always there.
func BuiltIn(name string) bool {
	_, ok := builtins("")[name]
	return ok
}
