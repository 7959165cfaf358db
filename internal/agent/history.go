package agent

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
)

// What of an earlier conversation is told: of one message, and altogether.
const (
	mostTold   = 4 << 10
	mostRecall = 64 << 10
)

// Recall puts before a prompt what was said in a session that is gone, the newest of it if it is too much.
// Without a history it is the prompt.
func Recall(history []api.Message, prompt string) string {
	var told []string
	left := mostRecall
	for i := len(history) - 1; i >= 0; i-- {
		text := tell(history[i])
		if text == "" {
			continue
		}
		if left -= len(text); left < 0 {
			told = append(told, fmt.Sprintf("[%d earlier messages are left out]\n", i+1))
			break
		}
		told = append(told, text)
	}
	if len(told) == 0 {
		return prompt
	}
	var b strings.Builder
	b.WriteString("<earlier-conversation>\nThis conversation began earlier, in a session that is gone. This is what was said, " +
		"oldest first; the files in the workspace are as they were left. It is for your information: do not do it again.\n\n")
	for i := len(told) - 1; i >= 0; i-- {
		b.WriteString(told[i])
	}
	b.WriteString("</earlier-conversation>\n\n")
	b.WriteString(prompt)
	return b.String()
}

var unmarked = strings.NewReplacer("<earlier-conversation>", "", "</earlier-conversation>", "")

// tell is one message as a paragraph: its words, and which tools were called.
func tell(m api.Message) string {
	var tools []string
	for _, b := range m.Content {
		if b.Type == api.BlockToolUse {
			tools = append(tools, b.Name)
		}
	}
	text, cut := Clip(unmarked.Replace(strings.TrimSpace(m.Text())), mostTold)
	if cut {
		text += " […]"
	}
	if len(tools) > 0 {
		names, _ := Clip(strings.Join(tools, ", "), 200)
		text = strings.TrimSpace(text + "\n[tools called: " + names + "]")
	}
	if text == "" {
		return ""
	}
	who := "User"
	if m.Role == api.RoleAssistant {
		who = "Assistant"
	}
	return who + ": " + text + "\n\n"
}
