package demo

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/berthdev/berth/internal/agent"
)

// deed is what a prompt asks for: a tool's call, as a line of shell, and what is said before and after it.
type deed struct {
	tool  string
	input map[string]string
	shell string

	before, after string
	quote         bool // the beginning of what the tool gave belongs to the answer
}

const help = "You can ask me to:\n\n" +
	"- write notes.txt: some text\n" +
	"- read notes.txt\n" +
	"- run ls -la, or $ ls -la\n" +
	"- list"

// A file's name: one word, or more in quotation marks.
const name = "(`[^`]+`|\"[^\"]+\"|'[^']+'|[^\\s:]+)"

var (
	writing = regexp.MustCompile(`(?is)^(?:please\s+)?(?:write|create|make|save)\s+(?:(?:a|the|me\s+a)\s+)?(?:new\s+)?(?:file\b\s*)?(?:(?:called|named)\s+)?` + name + `?\s*(?:(?::|with|containing|saying|that\s+says)\s*(.*))?$`)
	aFile   = regexp.MustCompile(`(?i)\bfile\b`)
	reading = regexp.MustCompile(`(?i)^(?:please\s+)?(?:read|show|open|cat|print)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?` + name + `$`)
	running = regexp.MustCompile(`(?is)^(?:please\s+)?(?:run\s+|execute\s+|\$\s*)(.+)$`)
	listing = regexp.MustCompile(`(?i)^(?:please\s+)?(?:list|ls|dir|what\s+files\b.*)(?:\s+(?:the\s+|all\s+|my\s+)*files?)?[.?!]*$`)
)

// understand finds out what a prompt asks for; nil if it is none of the things that the agent can do.
func understand(prompt string) *deed {
	prompt = strings.TrimSpace(prompt)
	if m := running.FindStringSubmatch(prompt); m != nil {
		command := strings.Trim(m[1], "`")
		return &deed{tool: "bash", input: map[string]string{"command": command}, shell: "eval " + quoted(command),
			before: "I run it.", after: "It printed:\n\n", quote: true}
	}
	if listing.MatchString(prompt) {
		return &deed{tool: "list", input: map[string]string{"path": "."}, shell: "ls -1p",
			before: "I look at what is here.", after: "These files are in the workspace:\n\n", quote: true}
	}
	if m := reading.FindStringSubmatch(prompt); m != nil {
		file := strings.Trim(m[1], "`'\"")
		return &deed{tool: "read", input: map[string]string{"path": file}, shell: "cat -- " + quoted(file),
			before: "I read " + file + ".", after: "It says:\n\n", quote: true}
	}
	if m := writing.FindStringSubmatch(prompt); m != nil && (m[2] != "" || strings.Contains(m[1], ".") || aFile.MatchString(prompt)) {
		return write(strings.Trim(m[1], "`'\"."), m[2])
	}
	return nil
}

func write(file, text string) *deed {
	if file == "" {
		file = "hello.txt"
	}
	if strings.TrimSpace(text) == "" {
		text = "Hello from Berth's demo agent."
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	shell := "printf %s " + quoted(text) + " >" + quoted(file) + " && echo " + quoted("wrote "+file)
	if dir := path.Dir(file); dir != "." {
		shell = "mkdir -p -- " + quoted(dir) + " && " + shell
	}
	return &deed{tool: "write", input: map[string]string{"path": file, "content": text}, shell: shell,
		before: "I write " + file + ".", after: "Done: " + file + " is in the workspace."}
}

// quoted is a text as one word of a shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "'", `'\''`) + "'"
}

// greeting is what the agent says first.
func greeting(t agent.Turn) string {
	if t.Session.Resume {
		return ""
	}
	text := "Hello! I am Berth's demo agent. There is no model behind me: I follow a few simple rules, so that you can try Berth without a key."
	if len(t.History) > 0 {
		text += " We have talked before; what we said is kept, but I do not remember it."
	}
	return text
}

// echo is the answer to a prompt that asks for nothing that the agent can do.
func echo(prompt string) string {
	said, cut := agent.Clip(strings.TrimSpace(prompt), 200)
	if cut {
		said += "…"
	}
	return "You said: " + said + "\n\nI cannot do anything with that. " + help
}

func jsonLine(v any) string {
	line, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(line)
}
