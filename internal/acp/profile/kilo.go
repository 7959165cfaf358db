package profile

// kilo is Kilo Code, which began as a copy of OpenCode.
var kilo = Profile{
	Name: "kilo", Title: "Kilo Code", Command: []string{"kilo", "acp"},
	Packages: []Package{{"@kilocode/cli-linux-{arch}", "7.7.7"}},
	Programs: map[string]string{"kilo": "@kilocode/cli-linux-*/bin/kilo"},
	Keys:     []string{"KILO_API_KEY"}, Hosts: []string{"api.kilo.ai:443"},
	State: map[string]string{"XDG_DATA_HOME": ""},
	Env:   []string{"KILO_DISABLE_AUTOUPDATE=1", "KILO_DISABLE_MODELS_FETCH=1"},
	Free:  []Setting{{Env: `KILO_PERMISSION={"*":"allow"}`}}, Ask: []Setting{{Env: `KILO_PERMISSION={"*":"ask"}`}},
	Usage:  Usage{From: FromAnswer},
	Quirks: Quirks{LingersOnEOF: true},
}
