package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Tool is an operation that an agent can call in a sandbox.
type Tool struct {
	Name        string          `json:"name" example:"bash"`
	Description string          `json:"description" doc:"The tool's description"`
	InputSchema json.RawMessage `json:"input_schema" doc:"JSON Schema of the arguments; calls are validated against it"`
}

// ToolList lists the tools of a sandbox: the built-in tools, and the tools of the MCP servers of its template under
// the name server__tool.
type ToolList struct {
	Items   []Tool       `json:"items"`
	Servers []ToolServer `json:"servers,omitempty" doc:"The MCP servers of the sandbox's template"`
}

// ToolServer is an MCP server in a sandbox.
type ToolServer struct {
	Name    string `json:"name" example:"files"`
	Tools   int    `json:"tools" doc:"Number of tools of this server"`
	Problem string `json:"problem,omitempty" doc:"Why some or all of its tools are missing"`
}

// ExecuteTool is the request to call a tool in a sandbox.
type ExecuteTool struct {
	ToolName  string          `json:"tool_name" maxLength:"128" doc:"The name of a listed tool" example:"bash"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"The arguments, as in the tool's input_schema"`
	Timeout   float64         `json:"timeout,omitempty" minimum:"0" maximum:"3600" doc:"Timeout in seconds; default: the tool's"`
}

// Types of tool content, as in MCP.
const (
	ContentText     = "text"
	ContentImage    = "image"
	ContentAudio    = "audio"
	ContentLink     = "resource_link"
	ContentResource = "resource"
)

// ToolContent is one part of a tool's result.
type ToolContent struct {
	Type        string `json:"type" doc:"text, image, audio, resource_link or resource" example:"text"`
	Text        string `json:"text,omitempty" doc:"The text of a text content or a text resource"`
	Data        []byte `json:"data,omitempty" doc:"The data of an image, audio or binary resource, in base64"`
	MIMEType    string `json:"mime_type,omitempty" example:"image/png"`
	URI         string `json:"uri,omitempty" doc:"The URI of a resource"`
	Name        string `json:"name,omitempty" doc:"The name of a resource_link"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

// ToolResult is the result of a tool call: an MCP tool result with the field names of this API.
type ToolResult struct {
	Content           []ToolContent `json:"content"`
	IsError           bool          `json:"is_error" doc:"The tool failed; the content has the reason. If the tool could not run, the answer is a problem instead"`
	ExitCode          *int          `json:"exit_code,omitempty" doc:"The exit code of a command; 124 means that it timed out"`
	Truncated         bool          `json:"truncated" doc:"The content is cut; it describes how to get the rest"`
	DurationMS        int64         `json:"duration_ms"`
	StructuredContent any           `json:"structured_content,omitempty" doc:"The result as JSON, if the tool has one: bash returns stdout and stderr"`
}

// Text returns the content as text. For content of other types it returns the type and the address or size.
func (r ToolResult) Text() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.text())
	}
	return strings.Join(all, "\n")
}

func (c ToolContent) text() string {
	if c.Type == ContentText || c.Text != "" {
		return c.Text
	}
	words := []string{c.Type}
	for _, word := range []string{c.URI, c.MIMEType} {
		if word != "" {
			words = append(words, word)
		}
	}
	if c.Type == ContentLink {
		return "[" + strings.Join(words, " ") + "]"
	}
	return fmt.Sprintf("[%s, %d bytes]", strings.Join(words, " "), len(c.Data))
}
