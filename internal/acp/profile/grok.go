package profile

// grok is xAI's Grok CLI.
var grok = Profile{
	Name: "grok", Title: "Grok", Command: []string{"grok", "agent", "--no-leader"}, Tail: []string{"stdio"},
	Packages: []Package{{"@xai-official/grok-linux-{arch}", "1.0.41"}},
	Programs: map[string]string{"grok": "@xai-official/grok-linux-*/bin/grok.br"},
	Keys:     []string{"XAI_API_KEY"}, Hosts: []string{"api.x.ai:443"},
	State: map[string]string{"GROK_HOME": ""},
	Free:  []Setting{{Flag: "--always-approve"}}, Ask: []Setting{},
	Usage:  Usage{From: FromMeta, Exact: true},
	Quirks: Quirks{Retries: []string{"retry_state"}},
}
