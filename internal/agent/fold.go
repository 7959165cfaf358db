package agent

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
)

// Limits in bytes of the content of a message: of one block, and of all blocks. Agents and tools may write any amount.
const (
	maxText    = 1 << 20
	maxTool    = 256 << 10 // of a call's input, and of a result
	maxMessage = 8 << 20
	blockCost  = 64 // counted for each block in addition to its content
)

// Fold builds the content of an assistant's message from the events of its turn, which may arrive in any number of
// pieces. A full text replaces the deltas before it; if none arrives, the deltas are the text. Events of sub-agents
// are ignored. The zero Fold is ready for use.
type Fold struct {
	blocks []api.Block
	size   int

	open string // the type of the block that the deltas in text belong to; empty: no deltas
	text strings.Builder
}

// Add adds the next events.
func (f *Fold) Add(events ...api.TurnEvent) {
	for i := range events {
		if events[i].Parent == "" {
			f.add(&events[i])
		}
	}
}

func (f *Fold) add(e *api.TurnEvent) {
	switch e.Type {
	case api.EventTextDelta:
		f.delta(api.BlockText, e.Text)
	case api.EventThinkingDelta:
		f.delta(api.BlockThinking, e.Text)
	case api.EventText:
		f.full(api.Block{Type: api.BlockText, Text: e.Text, Truncated: e.Cut})
	case api.EventThinking:
		f.full(api.Block{Type: api.BlockThinking, Text: e.Text, Truncated: e.Cut})
	case api.EventToolCall:
		f.flush()
		f.keep(api.Block{Type: api.BlockToolUse, ID: e.ID, Name: e.Name, Input: e.Input, Truncated: e.Cut})
	case api.EventToolResult:
		f.flush()
		f.keep(api.Block{Type: api.BlockToolResult, ToolUseID: e.ID, Text: e.Text, IsError: e.Error, Truncated: e.Cut})
	}
}

func (f *Fold) delta(kind, text string) {
	if f.open != kind {
		f.flush()
		f.open = kind
	}
	if f.text.Len() <= maxText { // text beyond maxText makes keep mark the block as truncated
		f.text.WriteString(text)
	}
}

// full adds a complete block and drops the deltas of the same block.
func (f *Fold) full(b api.Block) {
	if f.open == b.Type {
		f.drop()
	}
	f.flush()
	f.keep(b)
}

// flush turns deltas that no full text followed into a block.
func (f *Fold) flush() {
	if f.text.Len() > 0 {
		f.keep(api.Block{Type: f.open, Text: f.text.String()})
	}
	f.drop()
}

func (f *Fold) drop() {
	f.open = ""
	f.text.Reset()
}

// keep adds a block and shortens it to the space left in the message.
func (f *Fold) keep(b api.Block) {
	if b.Text == "" && (b.Type == api.BlockText || b.Type == api.BlockThinking) {
		return
	}
	room := maxMessage - f.size - blockCost
	if room <= 0 {
		if n := len(f.blocks); n > 0 {
			f.blocks[n-1].Truncated = true
		}
		return
	}
	most := maxText
	if b.Type == api.BlockToolUse || b.Type == api.BlockToolResult {
		most = maxTool
	}
	if len(b.Input) > min(most, room) {
		b.Input, b.Truncated = nil, true
	}
	var cut bool
	b.Text, cut = Clip(b.Text, min(most, room))
	b.Truncated = b.Truncated || cut
	f.size += blockCost + len(b.Text) + len(b.Input) + len(b.Name) + len(b.ID) + len(b.ToolUseID)
	f.blocks = append(f.blocks, b)
}

// Blocks returns the message's content so far. It does not change the Fold.
func (f *Fold) Blocks() []api.Block {
	now := Fold{blocks: slices.Clone(f.blocks), size: f.size, open: f.open}
	now.text.WriteString(f.text.String())
	now.flush()
	return now.blocks
}

// Clip shortens text to at most the given number of bytes and splits no character. It reports whether it shortened it.
func Clip(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}
