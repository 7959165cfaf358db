package program

import "github.com/berthdev/berth/internal/acp/profile"

// Node is the Node.js that runs programs in JavaScript. Several of them need version 22 or later.
var Node = Package{Name: "node-linux-{arch}", Version: "22.23.3"}

// ClaudeCode is Anthropic's command line, which the template claude_code runs.
var ClaudeCode = Program{
	Name: "claude_code", Title: "Claude Code", Size: "350 MB", Command: "claude",
	Packages: []Package{{Name: "@anthropic-ai/claude-code", Version: "2.1.325"}},
	Native:   "@anthropic-ai/claude-code-linux-*/claude",
}

// SandboxAgent is the name of the server that runs agents for clients over HTTP.
const SandboxAgent = "sandbox_agent"

// All lists the programs that can be installed, in the order in which help pages list them.
var All = []Program{
	ClaudeCode,
	ofAgent("opencode", "180 MB"),
	ofAgent("codex", "580 MB"),
	ofAgent("gemini", "220 MB"),
	goose(),
	ofAgent("copilot", "190 MB"),
	ofAgent("qwen", "330 MB"),
	{
		Name: "cursor", Title: "Cursor CLI", Size: "200 MB", Command: "cursor-agent",
		Vendor: "Install Cursor's CLI on this machine as its vendor says (cursor.com/cli), then try again. " +
			"The npm package with the name cursor-agent is another program.",
	},
	{
		Name: SandboxAgent, Title: "sandbox-agent", Size: "25 MB", Command: "sandbox-agent",
		Packages: []Package{{Name: "@sandbox-agent/cli-linux-{arch}", Version: "0.4.2"}},
		Native:   "@sandbox-agent/cli-linux-*/bin/sandbox-agent", With: []string{"opencode"},
	},
}

// ofAgent returns the program of an agent as its profile describes it.
func ofAgent(name, size string) Program {
	a, _ := profile.Find(name)
	p := Program{Name: name, Title: a.Title, Size: size, Command: a.Command[0], Packages: a.Packages}
	if a.Node {
		p.Packages = append(p.Packages[:len(p.Packages):len(p.Packages)], Node)
		p.Script = a.Programs[p.Command]
	} else {
		p.Native = a.Programs[p.Command]
	}
	return p
}

func goose() Program {
	p := ofAgent("goose", "270 MB")
	p.Reports = "1.34.0"
	return p
}
