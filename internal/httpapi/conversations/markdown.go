package conversations

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// markdownExport writes a conversation as Markdown for people.
type markdownExport struct{}

func (markdownExport) contentType() string { return "text/markdown; charset=utf-8" }

func (markdownExport) extension() string { return "md" }

func (markdownExport) begin(w io.Writer, c api.Conversation) error {
	_, err := fmt.Fprintf(w, "# %s\n\n- id: %s\n- template: %s\n- made: %s\n- messages: %d\n- tokens: %s\n- cost: $%.4f\n",
		cmp.Or(c.Title, "Conversation "+c.ID), c.ID, c.Template, c.CreatedAt.UTC().Format(time.RFC3339), c.Stats.MessagesExchanged,
		tokens(api.Usage{
			InputTokens: c.Stats.TotalInputTokens, OutputTokens: c.Stats.TotalOutputTokens,
			CacheReadTokens: c.Stats.TotalCacheReadTokens, CacheWriteTokens: c.Stats.TotalCacheWriteTokens,
		}), c.Stats.TotalCostUSD)
	return err
}

func tokens(u api.Usage) string {
	return fmt.Sprintf("%d in, %d out, %d read from cache, %d written to it", u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens)
}

func (markdownExport) message(w io.Writer, m api.Message, _ bool) error {
	var b strings.Builder
	who := "User"
	if m.Role == api.RoleAssistant {
		who = "Assistant"
	}
	fmt.Fprintf(&b, "\n## %s, %s\n", who, m.CreatedAt.UTC().Format(time.DateTime))
	if m.Role == api.RoleAssistant {
		fmt.Fprintf(&b, "\n_%s_\n", strings.Join(about(m), "; "))
	}
	for _, block := range m.Content {
		writeBlock(&b, block)
	}
	for i, a := range m.Attachments {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "- attached: `%s` (%s, %d bytes)\n", a.Path, a.MediaType, a.Size)
	}
	if m.Error != "" {
		fmt.Fprintf(&b, "\n**%s:**\n%s", m.Status, fenced("", m.Error))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (markdownExport) end(io.Writer) error { return nil }

// about returns the model, the status, the tokens and the cost of an answer as texts.
func about(m api.Message) (words []string) {
	if m.Model != "" {
		words = append(words, m.Model)
	}
	return append(words, m.Status, tokens(m.Usage), fmt.Sprintf("$%.4f", m.CostUSD))
}

func writeBlock(b *strings.Builder, block api.Block) {
	switch block.Type {
	case api.BlockText:
		fmt.Fprintf(b, "\n%s\n", strings.TrimRight(block.Text, "\n"))
	case api.BlockThinking:
		fmt.Fprintf(b, "\nThinking:\n%s", fenced("", block.Text))
	case api.BlockToolUse:
		var input bytes.Buffer
		if json.Indent(&input, block.Input, "", "  ") != nil {
			input.Reset()
		}
		fmt.Fprintf(b, "\nTool %s:\n%s", block.Name, fenced("json", input.String()))
	case api.BlockToolResult:
		result := "Result"
		if block.IsError {
			result = "Error"
		}
		fmt.Fprintf(b, "\n%s:\n%s", result, fenced("", block.Text))
	}
	if block.Truncated {
		b.WriteString("\n_The rest is cut._\n")
	}
}

// fenced returns the text as a code block. Its fence is longer than any fence in the text.
func fenced(kind, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("\n%s%s\n%s\n%s\n", fence, kind, strings.TrimRight(text, "\n"), fence)
}
