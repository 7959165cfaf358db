package template

import (
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/template/program"
)

// The runtimes of templates. A runtime is the protocol between Berth and the agent.
const (
	RuntimeDemo   = "demo"
	RuntimeClaude = "claude-cli"
	RuntimeLines  = "lines"
	RuntimeACP    = "acp"
)

// permissionModes are the permission modes of Claude Code: the set of actions for which it does not ask.
var permissionModes = []string{"bypassPermissions", "acceptEdits", "plan", "dontAsk"}

var runtimes = []string{RuntimeACP, RuntimeClaude, RuntimeDemo, RuntimeLines}

// program returns the installed program that the template's runtime runs. It is mounted besides the template's mounts.
func (t Template) program() (p program.Program, ok bool) {
	if t.Runtime == RuntimeClaude {
		return program.ClaudeCode, true
	}
	return p, false
}

// builtins returns the predefined templates without the server's defaults; Registry.filled adds those.
func builtins() map[string]Template {
	no := false
	claude := Template{
		Name: program.ClaudeCode.Name, Runtime: RuntimeClaude, Description: "Claude Code, installed by 'berth template install claude_code'",
		Egress: Egress{"api.anthropic.com:443"}, EnvFrom: []string{"ANTHROPIC_API_KEY"},
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

// BuiltIn reports whether a template of that name is predefined.
func BuiltIn(name string) bool {
	_, ok := builtins()[name]
	return ok
}
