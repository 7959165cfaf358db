package profile

// copilot is GitHub's Copilot CLI.
var copilot = Profile{
	Name: "copilot", Title: "GitHub Copilot CLI", Command: []string{"copilot", "--acp"},
	Packages: []Package{{"@github/copilot-linux-{arch}", "1.0.102"}},
	Programs: map[string]string{"copilot": "@github/copilot-linux-*/copilot"},
	Keys:     []string{"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"}, Hosts: []string{"api.githubcopilot.com:443", "api.github.com:443"},
	State: map[string]string{"COPILOT_HOME": ""},
	Env:   []string{"COPILOT_AUTO_UPDATE=false"},
	Free:  []Setting{{Flag: "--yolo"}}, Ask: []Setting{{Option: "allow_all", Value: "off"}},
	Usage: Usage{From: FromAnswer, Exact: true, Failed: true},
	Quirks: Quirks{
		WholeCalls: true, Failures: []string{"Error: "}, Notes: []string{"Info: Operation cancelled by user"}, Asides: []string{"Info: "},
		Retries: []string{"Info: Response was interrupted due to ", "Info: Request failed due to a transient "},
	},
}
