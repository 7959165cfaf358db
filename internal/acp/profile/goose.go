package profile

// goose is Goose.
var goose = Profile{
	Name: "goose", Title: "Goose", Command: []string{"goose", "acp"},
	Packages: []Package{{"@aaif/goose-binary-linux-{arch}", "0.20.1"}},
	Programs: map[string]string{"goose": "@aaif/goose-binary-linux-*/bin/goose"},
	Keys:     []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}, Hosts: []string{"api.openai.com:443", "api.anthropic.com:443"},
	State: map[string]string{"GOOSE_PATH_ROOT": ""},
	Env:   []string{"GOOSE_DISABLE_KEYRING=1", "GOOSE_TELEMETRY_ENABLED=false"},
	Free:  []Setting{{Mode: "auto"}}, Ask: []Setting{{Mode: "approve"}}, Plan: []Setting{{Mode: "chat"}},
	Usage:  Usage{From: FromAnswer, Failed: true},
	Quirks: Quirks{LingersOnEOF: true, NoKinds: true, Failures: []string{"Ran into this error: "}},
}
