package program

// node is the Node.js that runs programs in JavaScript. Several of them need version 22 or later.
var node = Package{"node-linux-{arch}", "22.23.3"}

// ClaudeCode is Anthropic's command line, which the template claude_code runs.
var ClaudeCode = Program{
	Name: "claude_code", Title: "Claude Code", Size: "350 MB", Command: "claude",
	Packages: []Package{{"@anthropic-ai/claude-code", "2.1.325"}},
	Native:   "@anthropic-ai/claude-code-linux-*/claude",
}

// SandboxAgent is the name of the server that runs agents for clients over HTTP.
const SandboxAgent = "sandbox_agent"

// All lists the programs that can be installed, in the order in which help pages list them.
var All = []Program{
	ClaudeCode,
	{
		Name: "opencode", Title: "OpenCode", Size: "180 MB", Command: "opencode",
		Packages: []Package{{"opencode-linux-{arch}", "1.18.33"}},
		Native:   "opencode-linux-*/bin/opencode",
	},
	{
		Name: "codex", Title: "Codex", Size: "580 MB", Command: "codex-acp",
		Packages: []Package{{"@agentclientprotocol/codex-acp", "2.6.0"}, node},
		Script:   "@agentclientprotocol/codex-acp/dist/index.js",
	},
	{
		Name: "gemini", Title: "Gemini CLI", Size: "220 MB", Command: "gemini",
		Packages: []Package{{"@google/gemini-cli", "0.61.0"}, node},
		Script:   "@google/gemini-cli/bundle/gemini.js",
	},
	{
		Name: "goose", Title: "goose", Size: "270 MB", Command: "goose",
		Packages: []Package{{"@aaif/goose-binary-linux-{arch}", "0.20.1"}},
		Native:   "@aaif/goose-binary-linux-*/bin/goose", Reports: "1.34.0",
	},
	{
		Name: "copilot", Title: "GitHub Copilot CLI", Size: "190 MB", Command: "copilot",
		Packages: []Package{{"@github/copilot", "1.0.102"}},
		Native:   "@github/copilot-linux-*/copilot",
	},
	{
		Name: "qwen", Title: "Qwen Code", Size: "330 MB", Command: "qwen",
		Packages: []Package{{"@qwen-code/qwen-code", "0.24.4"}, node},
		Script:   "@qwen-code/qwen-code/cli-entry.js",
	},
	{
		Name: "cursor", Title: "Cursor CLI", Size: "200 MB", Command: "cursor-agent",
		Vendor: "Install Cursor's CLI on this machine as its vendor says (cursor.com/cli), then try again. " +
			"The npm package with the name cursor-agent is another program.",
	},
	{
		Name: SandboxAgent, Title: "sandbox-agent", Size: "25 MB", Command: "sandbox-agent",
		Packages: []Package{{"@sandbox-agent/cli-linux-{arch}", "0.4.2"}},
		Native:   "@sandbox-agent/cli-linux-*/bin/sandbox-agent", With: []string{"opencode"},
	},
}
