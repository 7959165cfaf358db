package profile

// qwen is Qwen Code.
var qwen = Profile{
	Name: "qwen", Title: "Qwen Code", Command: []string{"qwen", "--acp"},
	Packages: []Package{{"@qwen-code/qwen-code", "0.24.4"}},
	Programs: map[string]string{"qwen": "@qwen-code/qwen-code/cli-entry.js"}, Node: true,
	Keys: []string{"OPENAI_API_KEY"}, Hosts: []string{"dashscope-intl.aliyuncs.com:443"},
	State: map[string]string{"QWEN_HOME": ""},
	Files: map[string]string{"settings.json": `{"security":{"auth":{"selectedType":"openai"}},"general":{"disableAutoUpdate":true},"privacy":{"usageStatisticsEnabled":false}}`},
	Defaults: []Default{
		{"OPENAI_API_KEY", []string{"OPENAI_BASE_URL=https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "OPENAI_MODEL=qwen3-coder-plus"}},
	},
	Free: []Setting{{Mode: "yolo"}}, Ask: []Setting{{Mode: "default"}}, Plan: []Setting{{Mode: "plan"}},
	Usage: Usage{From: FromCalls, Exact: true},
}
