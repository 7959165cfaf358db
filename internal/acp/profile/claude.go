package profile

// claude is Anthropic's Claude Code through its adapter for ACP.
var claude = Profile{
	Name: "claude", Title: "Claude Code (ACP)", Command: []string{"claude-agent-acp"},
	Packages: []Package{{"@agentclientprotocol/claude-agent-acp", "0.99.1"}},
	Programs: map[string]string{"claude-agent-acp": ".bin/claude-agent-acp"}, Node: true,
	Keys: []string{"ANTHROPIC_API_KEY"}, Hosts: []string{"api.anthropic.com:443"},
	State: map[string]string{"CLAUDE_CONFIG_DIR": ""},
	Env: []string{
		"IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1", "MCP_CONNECTION_NONBLOCKING=0",
	},
	Free: []Setting{{Mode: "bypassPermissions"}}, Ask: []Setting{{Mode: "default"}}, Plan: []Setting{{Mode: "plan"}},
	Usage:  Usage{From: FromAnswer, Exact: true},
	Quirks: Quirks{GrowingCalls: true, Failures: []string{"API Error: "}},
}
