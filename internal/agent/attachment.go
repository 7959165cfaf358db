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
	MediaType string // "image/png" and others; one of the types of IsImage was found in the content
	Size      int64
	Inline    bool // see MaxInline
}

// MaxInline is the size of the largest image that the models' services accept as image content: they limit its base64
// form to 5 MiB. Attachment.Inline is true for images up to this size. Agents read other files from their paths, and
// larger images too unless they make them smaller.
const MaxInline = 5 << 20 / 4 * 3

// IsImage reports whether models accept images of the type.
func IsImage(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
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
