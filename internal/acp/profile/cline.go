package profile

// cline is Cline.
var cline = Profile{
	Name: "cline", Title: "Cline", Command: []string{"cline", "--acp"},
	Packages: []Package{{"cline", "3.0.65"}},
	Programs: map[string]string{"cline": "@cline/cli-linux-*/bin/cline"},
	Keys:     []string{"CLINE_API_KEY"}, Hosts: []string{"api.cline.bot:443"},
	State: map[string]string{"CLINE_DIR": "", "CLINE_DATA_DIR": "data"},
	Env:   []string{"CLINE_SESSION_BACKEND_MODE=local"}, // otherwise it works in a daemon that outlives it
	Free:  []Setting{{Option: "auto_approve", Value: true}}, Ask: []Setting{{Option: "auto_approve", Value: false}},
	Usage:  Usage{From: FromNothing},
	Quirks: Quirks{WholeCalls: true, NoKinds: true, SilentFailures: true, RepeatsCut: true},
}
