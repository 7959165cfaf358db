package profile

// cursor is Cursor's CLI. It is not tested with Berth, because it needs an account.
var cursor = Profile{
	Name: "cursor", Title: "Cursor CLI", Command: []string{"cursor-agent", "acp"},
	Keys: []string{"CURSOR_API_KEY"}, Hosts: []string{"*.cursor.sh:443", "*.cursor.com:443"},
	Ask:   []Setting{},
	State: map[string]string{"CURSOR_CONFIG_DIR": ""},
	Usage: Usage{From: FromContext},
}
