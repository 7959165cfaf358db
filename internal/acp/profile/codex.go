package profile

// codex is OpenAI's Codex through its adapter for ACP.
var codex = Profile{
	Name: "codex", Title: "Codex", Command: []string{"codex-acp"},
	Packages: []Package{{"@agentclientprotocol/codex-acp", "2.6.0"}},
	Programs: map[string]string{"codex-acp": "@agentclientprotocol/codex-acp/dist/index.js"}, Node: true,
	Keys: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, Hosts: []string{"api.openai.com:443"},
	State: map[string]string{"CODEX_HOME": ""},
	// It signs in with the key, and must not keep that in its state, which is saved with the workspace. Its snapshots of
	// the shell have all variables.
	Env:   []string{`DEFAULT_AUTH_REQUEST={"methodId":"api-key"}`},
	Files: map[string]string{"config.toml": "cli_auth_credentials_store = \"ephemeral\"\n[features]\nshell_snapshot = false\n"},
	Free:  []Setting{{Env: "INITIAL_AGENT_MODE=agent-full-access"}}, Ask: []Setting{{Mode: "workspace-write"}},
	Usage:  Usage{From: FromAnswer, Exact: true, Failed: true},
	Quirks: Quirks{LateCalls: true, LingersOnEOF: true, Notes: []string{"Warning: Model metadata for "}, Retries: []string{"codex.error"}},
}
