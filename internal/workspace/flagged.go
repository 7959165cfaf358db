package workspace

import "strings"

// Flagged reports whether common tools run what is at a path by themselves, or do what it says: hooks and
// settings of git, of editors, of shells and of agents. Berth runs none of it. Whoever takes a workspace
// out of its sandbox should look at such files first, so that differences and restores name them.
func Flagged(path string) bool {
	rest := path
	for {
		for _, p := range flagged {
			if rest == p || strings.HasSuffix(p, "/") && strings.HasPrefix(rest, p) {
				return true
			}
		}
		var below bool
		if _, rest, below = strings.Cut(rest, "/"); !below {
			return false
		}
	}
}

// flagged are such files, and folders of them, wherever in a tree they are.
var flagged = []string{
	".git/hooks/", ".git/config", ".husky/", ".envrc",
	".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/", ".mcp.json", ".cursor/mcp.json",
	".vscode/settings.json", ".vscode/tasks.json", ".idea/workspace.xml",
}
