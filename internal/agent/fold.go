package agent

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
)

// What a message keeps: of one block, and altogether. What an agent and its tools write is without end.
const (
	mostText    = 1 << 20
	mostTool    = 256 << 10 // of a call's input, and of a result
	mostMessage = 8 << 20
	blockCost   = 64 // what a block counts for beside its content
)

// Fold gathers the content of an assistant's message from the events of its turn, in any number of pieces.
// Deltas give way to the full text that follows them, and stand for it if none does. What sub-agents say
// is no part of the message. The zero Fold is ready for use.
type Fold struct {
	blocks []api.Block
	size   int

	open string // the kind of block that the deltas belong to
	text strings.Builder
}

// Add folds in the next events.
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
	if f.text.Len() <= mostText { // one byte more than is kept shows that there was more
		f.text.WriteString(text)
	}
}

// full takes a whole block in the place of its deltas.
func (f *Fold) full(b api.Block) {
	if f.open == b.Type {
		f.drop()
	}
	f.flush()
	f.keep(b)
}

// flush makes a block of deltas that nothing followed.
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

// keep adds a block, or what there is room for.
func (f *Fold) keep(b api.Block) {
	if b.Text == "" && (b.Type == api.BlockText || b.Type == api.BlockThinking) {
		return
	}
	room := mostMessage - f.size - blockCost
	if room <= 0 {
		if n := len(f.blocks); n > 0 {
			f.blocks[n-1].Truncated = true
		}
		return
	}
	most := mostText
	if b.Type == api.BlockToolUse || b.Type == api.BlockToolResult {
		most = mostTool
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

// Blocks is the message's content so far.
func (f *Fold) Blocks() []api.Block {
	now := Fold{blocks: slices.Clone(f.blocks), size: f.size, open: f.open}
	now.text.WriteString(f.text.String())
	now.flush()
	return now.blocks
}

// Clip cuts a text to so many bytes, between two characters, and tells whether it did.
func Clip(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}
