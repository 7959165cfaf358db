package tool

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Limits in bytes of the content of a result besides its text. Media are images, sounds and files together.
const (
	maxMedia      = 3 << 20
	maxStructured = 256 << 10
	maxName       = 500 // names, addresses and types
)

// resultIn converts a server's result. The content keeps its order. Content that is too large is replaced by a note.
func resultIn(from *sdk.CallToolResult) api.ToolResult {
	result := api.ToolResult{IsError: from.IsError}
	room := maxMedia
	for _, c := range from.Content {
		one, cut := contentIn(c, &room)
		result.Content, result.Truncated = append(result.Content, one), result.Truncated || cut
	}
	if from.StructuredContent != nil {
		structuredIn(&result, from.StructuredContent)
	}
	boundText(&result)
	return result
}

// structuredIn adds structured content to a result. If the result has no other content, it is added as text too.
func structuredIn(result *api.ToolResult, content any) {
	text, _ := json.Marshal(content) // it came as JSON
	if len(result.Content) == 0 {
		result.Content = said(string(text)).Content
	}
	if len(text) <= maxStructured {
		result.StructuredContent = content
		return
	}
	note := fmt.Sprintf("[structured content of %d bytes: left out, the most is %d]", len(text), maxStructured)
	result.Content, result.Truncated = append(result.Content, said(note).Content...), true
}

// boundText limits the text of a result. If all texts together are too long, it merges them into one text without the
// middle.
func boundText(result *api.ToolResult) {
	size, out := 0, new(headTail)
	var others []api.ToolContent
	for i, c := range result.Content {
		if c.Type != api.ContentText {
			others = append(others, c)
			continue
		}
		if size > 0 {
			_, _ = out.Write([]byte("\n"))
		}
		size += len(c.Text) + 1
		_, _ = out.Write([]byte(c.Text))
		result.Content[i].Text = plain(c.Text)
	}
	switch text, cut := out.text(maxText - notes); {
	case cut:
		text = line(text) + "(The answer was too long to show all of it. Ask for less.)"
		result.Content, result.Truncated = append(said(text).Content, others...), true
	case len(others) == 0 && strings.TrimSpace(text) == "":
		result.Content = said("(no output)").Content
	}
}

// contentIn converts one piece of content. It subtracts the size of a file from room, and replaces a file that is larger
// than room by a note.
func contentIn(c sdk.Content, room *int) (one api.ToolContent, cut bool) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return api.ToolContent{Type: api.ContentText, Text: c.Text}, false
	case *sdk.ImageContent:
		return file(api.ToolContent{Type: api.ContentImage, MIMEType: name(c.MIMEType), Data: c.Data}, room)
	case *sdk.AudioContent:
		return file(api.ToolContent{Type: api.ContentAudio, MIMEType: name(c.MIMEType), Data: c.Data}, room)
	case *sdk.ResourceLink:
		return api.ToolContent{
			Type: api.ContentLink, URI: name(c.URI), Name: name(c.Name), Title: name(c.Title), Description: plain(fault.Clip(c.Description, maxLine)), MIMEType: name(c.MIMEType),
		}, len(c.URI) > maxName
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return note("[a resource that is not there]"), false
		}
		return file(api.ToolContent{
			Type: api.ContentResource, URI: name(c.Resource.URI), MIMEType: name(c.Resource.MIMEType), Text: plain(c.Resource.Text), Data: c.Resource.Blob,
		}, room)
	}
	return note("[content of a kind that is not known here]"), true
}

func file(c api.ToolContent, room *int) (one api.ToolContent, cut bool) {
	size := len(c.Data) + len(c.Text)
	if size > *room {
		return note(fmt.Sprintf("[%s, %s, %d bytes: left out, an answer has at most %d bytes of files]", c.Type, shown(c.URI+" "+c.MIMEType), size, maxMedia)), true
	}
	*room -= size
	return c, false
}

func note(text string) api.ToolContent { return api.ToolContent{Type: api.ContentText, Text: text} }

// name limits the length of a name from a server.
func name(text string) string { return plain(fault.Clip(text, maxName)) }
