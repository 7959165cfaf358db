package tool

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
)

// Limits of what a result has besides text. Media are pictures, sounds and files, counted together.
const (
	maxMedia      = 3 << 20
	maxStructured = 256 << 10
	maxName       = 500 // of links and types
)

// resultIn passes a server's result on: its content in order, bounded. What is left out is named in its place.
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

// structuredIn adds structured content. Where it is the only content it is the text as well.
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

// boundText merges texts that are too long together into one, whose middle is left out.
func boundText(result *api.ToolResult) {
	size, out := 0, new(tape)
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

// contentIn is a piece of an answer. A file in it takes its size out of the room that is left; one that does not
// fit is named instead.
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
			Type: api.ContentLink, URI: name(c.URI), Name: name(c.Name), Title: name(c.Title), Description: plain(clip(c.Description, maxLine)), MIMEType: name(c.MIMEType),
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

// name bounds a name that a server gives.
func name(text string) string { return plain(clip(text, maxName)) }
