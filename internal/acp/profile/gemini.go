package profile

// gemini is Google's Gemini CLI.
var gemini = Profile{
	Name: "gemini", Title: "Gemini CLI", Command: []string{"gemini", "--acp"},
	Packages: []Package{{"@google/gemini-cli", "0.61.0"}},
	Programs: map[string]string{"gemini": "@google/gemini-cli/bundle/gemini.js"}, Node: true,
	Keys: []string{"GEMINI_API_KEY"}, Hosts: []string{"generativelanguage.googleapis.com:443"},
	State: map[string]string{"GEMINI_CLI_HOME": ""},
	Files: map[string]string{
		".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},` +
			`"general":{"enableAutoUpdate":false,"sessionRetention":{"enabled":false}},"privacy":{"usageStatisticsEnabled":false}}`,
	},
	Free: []Setting{{Flag: "--approval-mode"}, {Flag: "yolo"}}, Ask: []Setting{{Flag: "--approval-mode"}, {Flag: "default"}},
	Plan:  []Setting{{Flag: "--approval-mode"}, {Flag: "plan"}},
	Model: ModelRequest,
	Usage: Usage{From: FromQuota, Exact: true},
	Quirks: Quirks{
		QuietMS: 250, WholeCalls: true, LingersOnEOF: true, Notes: []string{"[MODE_UPDATE] "},
		// The CLI destroys a session that it loads in the minute in which the session's file was made. It also deletes
		// all files of a session if one of them has no messages.
		Rename: &Rename{Dir: ".gemini/tmp/*/chats", From: "session-*-{id8}.jsonl", To: "session-2000-01-01T00-00-{id8}.jsonl"},
	},
}
