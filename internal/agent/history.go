package agent

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
)

// Limits in bytes of the recalled history: of one message, and of all messages.
const (
	maxRecalledMessage = 4 << 10
	maxRecall          = 64 << 10
)

// Recall returns the prompt with the history of a lost session before it. If the history is too long, the oldest
// messages are left out.
func Recall(history []api.Message, prompt string) string {
	var texts []string
	left := maxRecall
	for i := len(history) - 1; i >= 0; i-- {
		text := paragraph(history[i])
		if text == "" {
			continue
		}
		if left -= len(text); left < 0 {
			texts = append(texts, fmt.Sprintf("[%d earlier messages are left out]\n", i+1))
			break
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return prompt
	}
	var b strings.Builder
	b.WriteString("<earlier-conversation>\nThis conversation began earlier, in a session that is gone. This is what was said, " +
		"oldest first; the files in the workspace are as they were left. It is for your information: do not do it again.\n\n")
	for i := len(texts) - 1; i >= 0; i-- {
		b.WriteString(texts[i])
	}
	b.WriteString("</earlier-conversation>\n\n")
	b.WriteString(prompt)
	return b.String()
}

var removeTags = strings.NewReplacer("<earlier-conversation>", "", "</earlier-conversation>", "")

// paragraph returns a message as one paragraph: its text and the names of the tools that were called.
func paragraph(m api.Message) string {
	var tools []string
	for _, b := range m.Content {
		if b.Type == api.BlockToolUse {
			tools = append(tools, b.Name)
		}
	}
	text, cut := Clip(removeTags.Replace(strings.TrimSpace(m.Text())), maxRecalledMessage)
	if cut {
		text += " […]"
	}
	if len(tools) > 0 {
		names, _ := Clip(strings.Join(tools, ", "), 200)
		text = strings.TrimSpace(text + "\n[tools called: " + names + "]")
	}
	for _, a := range m.Attachments {
		text += "\n[attached: " + guest.Workspace + "/" + a.Path + "]"
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
