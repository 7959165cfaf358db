package tool

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
)

// resultIn is a server's result as tools have it: text, in the size that they have.
func resultIn(from *sdk.CallToolResult) api.ToolResult {
	var out tape
	for i, c := range from.Content {
		if i > 0 {
			_, _ = out.Write([]byte("\n"))
		}
		_, _ = out.Write([]byte(contentIn(c)))
	}
	structured, _ := json.Marshal(from.StructuredContent) // it came as JSON
	has := from.StructuredContent != nil
	if has && len(from.Content) == 0 {
		_, _ = out.Write(structured)
	}
	text, cut := out.text(maxText - notes)
	if cut {
		text = line(text) + "(The answer was too long to show all of it. Ask for less.)"
	}
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	result := said(text)
	result.IsError, result.Truncated = from.IsError, cut
	switch {
	case has && len(structured) <= maxText:
		result.StructuredContent = from.StructuredContent
	case has:
		result.Truncated = true
	}
	return result
}

// contentIn is a piece of an answer as text. What is none is named.
func contentIn(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("[an image, %s, %d bytes: not shown]", shown(clip(c.MIMEType, 80)), len(c.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("[a sound, %s, %d bytes: not shown]", shown(clip(c.MIMEType, 80)), len(c.Data))
	case *sdk.ResourceLink:
		return fmt.Sprintf("[a resource: %s]", shown(clip(c.URI, maxLine)))
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "[a resource that is not there]"
		}
		if c.Resource.Blob == nil {
			return c.Resource.Text
		}
		return fmt.Sprintf("[a resource, %s, %d bytes: not shown]", shown(clip(c.Resource.URI, maxLine)), len(c.Resource.Blob))
	}
	return "[content of a kind that is not known here]"
}
