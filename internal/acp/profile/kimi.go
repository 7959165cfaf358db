package profile

// kimi is Kimi Code.
var kimi = Profile{
	Name: "kimi", Title: "Kimi Code", Command: []string{"kimi", "acp"},
	Packages: []Package{{"@moonshot-ai/kimi-code", "2.1.0"}},
	Programs: map[string]string{"kimi": ".bin/kimi"}, Node: true,
	Keys: []string{"KIMI_API_KEY"}, Hosts: []string{"api.moonshot.ai:443"},
	State: map[string]string{"KIMI_CODE_HOME": ""},
	Free:  []Setting{{Mode: "yolo"}}, Ask: []Setting{{Mode: "default"}}, Plan: []Setting{{Mode: "plan"}},
	Usage: Usage{From: FromContext}, Quirks: Quirks{SilentFailures: true},
}
