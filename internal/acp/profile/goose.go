package profile

// goose is Goose.
var goose = Profile{
	Name: "goose", Title: "Goose", Command: []string{"goose", "acp"},
	Packages: []Package{{"@aaif/goose-binary-linux-{arch}", "0.20.1"}},
	Programs: map[string]string{"goose": "@aaif/goose-binary-linux-*/bin/goose"},
	Keys:     []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}, Hosts: []string{"api.openai.com:443", "api.anthropic.com:443"},
	State: map[string]string{"GOOSE_PATH_ROOT": ""},
	Env:   []string{"GOOSE_DISABLE_KEYRING=1", "GOOSE_TELEMETRY_ENABLED=false"},
	Defaults: []Default{
		{"OPENAI_API_KEY", []string{"GOOSE_PROVIDER=openai", "GOOSE_MODEL=gpt-5.1"}},
		{"ANTHROPIC_API_KEY", []string{"GOOSE_PROVIDER=anthropic", "GOOSE_MODEL=claude-sonnet-4-5"}},
	},
	Free: []Setting{{Mode: "auto"}}, Ask: []Setting{{Mode: "approve"}}, Plan: []Setting{{Mode: "chat"}},
	Usage:  Usage{From: FromAnswer, Failed: true},
	Quirks: Quirks{LingersOnEOF: true, NoKinds: true, Failures: []string{"Ran into this error: "}},
}
