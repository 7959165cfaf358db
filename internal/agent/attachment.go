package agent

import (
	"fmt"
	"strings"
)

// Attachment is a file of a prompt. It is in the sandbox before the turn starts, where the agent and its tools may
// change or remove it.
type Attachment struct {
	Name      string // the user's name for it: for people, not a path
	Path      string // absolute, in the sandbox: letters, digits and ._-+=@,~ only
	MediaType string // "image/png" and others
	Size      int64
	// Inline reports that the file is an image that models accept as image content: its type and its size were checked.
	// Agents read all other files, and larger images, from Path.
	Inline bool
}

// Text returns the prompt with the paths of its attachments after it: the text that the agent gets.
func (t Turn) Text() string {
	if len(t.Attachments) == 0 {
		return t.Prompt
	}
	var b strings.Builder
	b.WriteString(t.Prompt)
	b.WriteString("\n\n")
	for _, a := range t.Attachments {
		fmt.Fprintf(&b, "[attached: %s (%s, %d bytes)]\n", a.Path, a.MediaType, a.Size)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
