package template

import (
	"slices"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/template/program"
)

// The runtimes of templates. A runtime is the protocol between Berth and the agent.
const (
	RuntimeDemo   = "demo"
	RuntimeClaude = "claude-cli"
	RuntimeLines  = "lines"
	RuntimeACP    = "acp"
	RuntimeServer = "sandbox-agent"
)

// permissionModes are the permission modes of Claude Code: the set of actions for which it does not ask.
var permissionModes = []string{"bypassPermissions", "acceptEdits", "plan", "dontAsk"}

var runtimes = []string{RuntimeACP, RuntimeClaude, RuntimeDemo, RuntimeLines, RuntimeServer}

// programs returns the installed programs that the template's runtime runs. They are mounted besides its mounts.
func (t Template) programs() (all []program.Program) {
	names := []string{t.Agent}
	switch t.Runtime {
	case RuntimeClaude:
		names = []string{program.ClaudeCode.Name}
	case RuntimeServer:
		names = append(names, program.SandboxAgent)
	}
	for _, name := range names {
		if p, err := program.Find(name); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// builtins returns the predefined templates without the server's defaults; Registry.filled adds those.
func builtins() map[string]Template {
	no := false
	claude := Template{
		Name: program.ClaudeCode.Name, Runtime: RuntimeClaude, Description: "Claude Code, installed by 'berth template install claude_code'",
		Egress: Egress{"api.anthropic.com:443"}, EnvFrom: []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"},
		// Another address, or another service, may need no key or another one.
		KeyEnv: []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"},
	}
	github := claude.clone()
	github.Name, github.Description = "github", "Claude Code in a clone of the repository GITHUB_REPOSITORY"
	github.Egress = append(github.Egress, "github.com:443")
	github.Hooks = []Hook{{Phase: string(hook.OnColdStart), Builtin: hook.Clone}}
	github.Env = hook.GitEnv("https://github.com")
	all := map[string]Template{
		"default":     {Name: "default", Runtime: RuntimeDemo, Description: "A sandbox on this machine with the host's programs"},
		"none":        {Name: "none", Runtime: RuntimeDemo, Description: "The same without hooks", DefaultHooks: &no},
		"demo":        {Name: "demo", Runtime: RuntimeDemo, Description: "A small agent that needs no key and no network"},
		"claude_code": claude,
		"github":      github,
	}
	for name := range agents {
		all[name] = forAgent(name)
	}
	server := forAgent("opencode")
	server.Name, server.Runtime = program.SandboxAgent, RuntimeServer
	server.Description = "OpenCode through sandbox-agent, both installed by 'berth template install sandbox_agent'"
	all[server.Name] = server
	return all
}

// agents are the agents of the runtime acp that have a template of their name, with the variables besides their keys that
// may name another service, which needs no key or another one.
var agents = map[string][]string{
	"codex":    {"MODEL_PROVIDER"},
	"copilot":  {"COPILOT_PROVIDER_BASE_URL"},
	"cursor":   nil,
	"gemini":   {"GOOGLE_GEMINI_BASE_URL"},
	"goose":    {"GOOSE_PROVIDER"},
	"opencode": {"OPENCODE_CONFIG_CONTENT"},
	"qwen":     {"OPENAI_BASE_URL"},
}

// forAgent returns the template of an agent: it reaches the agent's model service, with keys of the tenant or the server.
func forAgent(name string) Template {
	p, _ := profile.Find(name)
	return Template{
		Name: name, Runtime: RuntimeACP, Agent: name, Description: p.Title + ", installed by 'berth template install " + name + "'",
		Egress: p.Hosts, EnvFrom: p.Keys, KeyEnv: slices.Concat(p.Keys, agents[name]),
	}
}

// BuiltIn reports whether a template of that name is predefined.
func BuiltIn(name string) bool {
	_, ok := builtins()[name]
	return ok
}
