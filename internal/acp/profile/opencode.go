package profile

// opencode is OpenCode.
var opencode = Profile{
	Name: "opencode", Title: "OpenCode", Command: []string{"opencode", "acp"},
	Packages: []Package{{"opencode-linux-{arch}", "1.18.33"}},
	Programs: map[string]string{"opencode": "opencode-linux-*/bin/opencode"},
	Keys:     []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY"}, Hosts: []string{"api.anthropic.com:443", "api.openai.com:443"},
	State: map[string]string{"XDG_DATA_HOME": ""},
	Env:   []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
	Free:  []Setting{{Env: `OPENCODE_PERMISSION={"*":"allow"}`}}, Ask: []Setting{{Env: `OPENCODE_PERMISSION={"*":"ask"}`}},
	Usage:  Usage{From: FromAnswer},
	Quirks: Quirks{LingersOnEOF: true},
}
