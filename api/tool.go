package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Tool is something that an agent can have done in a sandbox.
type Tool struct {
	Name        string          `json:"name" example:"bash"`
	Description string          `json:"description" doc:"What it does, for the agent that chooses"`
	InputSchema json.RawMessage `json:"input_schema" doc:"JSON Schema of its arguments; what is sent is checked against it"`
}

// ToolList is what can be used in a sandbox: the built-in tools, and those of the MCP servers of its template
// under the name server__tool.
type ToolList struct {
	Items   []Tool       `json:"items"`
	Servers []ToolServer `json:"servers,omitempty" doc:"The MCP servers of the sandbox's template"`
}

// ToolServer is an MCP server in a sandbox.
type ToolServer struct {
	Name    string `json:"name" example:"files"`
	Tools   int    `json:"tools" doc:"How many of the tools are its own"`
	Problem string `json:"problem,omitempty" doc:"Why its tools, or some of them, are not there"`
}

// ExecuteTool asks to use a tool in a sandbox.
type ExecuteTool struct {
	ToolName  string          `json:"tool_name" maxLength:"128" doc:"One of the list of tools" example:"bash"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"Object as the tool's input_schema says"`
	Timeout   float64         `json:"timeout,omitempty" minimum:"0" maximum:"3600" doc:"Seconds that it may take; the tool's own default if left out"`
}

// Types of what a tool answered. They are MCP's.
const (
	ContentText     = "text"
	ContentImage    = "image"
	ContentAudio    = "audio"
	ContentLink     = "resource_link"
	ContentResource = "resource"
)

// ToolContent is one piece of what a tool answered.
type ToolContent struct {
	Type        string `json:"type" doc:"text, image, audio, resource_link or resource" example:"text"`
	Text        string `json:"text,omitempty" doc:"Of text, and of a resource that is text"`
	Data        []byte `json:"data,omitempty" doc:"Of an image, a sound, or a resource that is not text; base64"`
	MIMEType    string `json:"mime_type,omitempty" example:"image/png"`
	URI         string `json:"uri,omitempty" doc:"Of a resource"`
	Name        string `json:"name,omitempty" doc:"Of a resource_link"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

// ToolResult is what a tool answered. It is an MCP tool result in this API's spelling.
type ToolResult struct {
	Content           []ToolContent `json:"content"`
	IsError           bool          `json:"is_error" doc:"The tool ran and could not do it: the content says why, for the agent to read. What keeps a tool from running is a problem instead"`
	ExitCode          *int          `json:"exit_code,omitempty" doc:"Of a command, as in a shell; 124 timed out"`
	Truncated         bool          `json:"truncated" doc:"There is more than the content shows; it says how to get at it"`
	DurationMS        int64         `json:"duration_ms"`
	StructuredContent any           `json:"structured_content,omitempty" doc:"The same for programs, where a tool has it: bash gives stdout and stderr"`
}

// Text is the content as text. What is no text is named.
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
