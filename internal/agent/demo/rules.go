package demo

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/berthdev/berth/internal/agent"
)

// action is the answer to a prompt that a rule matches: a tool call with its shell command, and the texts before and after it.
type action struct {
	tool  string
	input map[string]string
	shell string

	before, after string
	quote         bool // the answer quotes the beginning of the tool's output
}

const help = "You can ask me to:\n\n" +
	"- write notes.txt: some text\n" +
	"- read notes.txt\n" +
	"- run ls -la, or $ ls -la\n" +
	"- list"

// namePattern matches a file name: one word, or several words in quotation marks.
const namePattern = "(`[^`]+`|\"[^\"]+\"|'[^']+'|[^\\s:]+)"

var (
	writePattern = regexp.MustCompile(`(?is)^(?:please\s+)?(?:write|create|make|save)\s+(?:(?:a|the|me\s+a)\s+)?(?:new\s+)?(?:file\b\s*)?(?:(?:called|named)\s+)?` + namePattern + `?\s*(?:(?::|with|containing|saying|that\s+says)\s*(.*))?$`)
	fileWord     = regexp.MustCompile(`(?i)\bfile\b`)
	readPattern  = regexp.MustCompile(`(?i)^(?:please\s+)?(?:read|show|open|cat|print)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?` + namePattern + `$`)
	runPattern   = regexp.MustCompile(`(?is)^(?:please\s+)?(?:run\s+|execute\s+|\$\s*)(.+)$`)
	listPattern  = regexp.MustCompile(`(?i)^(?:please\s+)?(?:list|ls|dir|what\s+files\b.*)(?:\s+(?:the\s+|all\s+|my\s+)*files?)?[.?!]*$`)
)

// understand finds the action that a prompt asks for. It returns nil if no rule matches.
func understand(prompt string) *action {
	prompt = strings.TrimSpace(prompt)
	if m := runPattern.FindStringSubmatch(prompt); m != nil {
		command := strings.Trim(m[1], "`")
		return &action{tool: "bash", input: map[string]string{"command": command}, shell: "eval " + quoted(command),
			before: "I run it.", after: "It printed:\n\n", quote: true}
	}
	if listPattern.MatchString(prompt) {
		return &action{tool: "list", input: map[string]string{"path": "."}, shell: "ls -1p",
			before: "I list the files.", after: "These files are in the workspace:\n\n", quote: true}
	}
	if m := readPattern.FindStringSubmatch(prompt); m != nil {
		file := strings.Trim(m[1], "`'\"")
		return &action{tool: "read", input: map[string]string{"path": file}, shell: "cat -- " + quoted(file),
			before: "I read " + file + ".", after: "It says:\n\n", quote: true}
	}
	if m := writePattern.FindStringSubmatch(prompt); m != nil && (m[2] != "" || strings.Contains(m[1], ".") || fileWord.MatchString(prompt)) {
		return write(strings.Trim(m[1], "`'\"."), m[2])
	}
	return nil
}

func write(file, text string) *action {
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
	return &action{tool: "write", input: map[string]string{"path": file, "content": text}, shell: shell,
		before: "I write " + file + ".", after: "Done: " + file + " is in the workspace."}
}

// quoted returns text as one quoted word of a shell command.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "'", `'\''`) + "'"
}

// greeting returns the first text of the agent's answer; empty in a resumed session.
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

// received returns a text about the prompt's attachments; empty: there are none.
func received(files []agent.Attachment) string {
	var names []string
	for _, f := range files {
		names = append(names, fmt.Sprintf("%s (%s, %d bytes)", f.Path, f.MediaType, f.Size))
	}
	if len(names) == 0 {
		return ""
	}
	return "You attached " + strings.Join(names, ", ") + "."
}

// echo returns the answer to a prompt that no rule matches.
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
