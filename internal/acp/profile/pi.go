package profile

// pi is the coding agent Pi through its adapter for ACP.
var pi = Profile{
	Name: "pi", Title: "Pi", Command: []string{"pi-acp"},
	Packages: []Package{{"pi-acp", "0.0.34"}, {"@earendil-works/pi-coding-agent", "0.87.1"}},
	Programs: map[string]string{"pi-acp": ".bin/pi-acp", "pi": ".bin/pi"}, Node: true,
	Keys: []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}, Hosts: []string{"api.anthropic.com:443", "api.openai.com:443"},
	State: map[string]string{"PI_CODING_AGENT_DIR": ""},
	Env:   []string{"PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1"},
	Usage: Usage{From: FromContext},
	Quirks: Quirks{
		WholeCalls: true, SilentFailures: true, Notes: []string{"Retry finished, resuming."}, Retries: []string{"Retrying (attempt "},
	},
}
