package conversations

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/readahead"
)

// A log that cannot be read now ends the stream, and the reader's place stays.
func TestTroubleEndsATurnStream(t *testing.T) {
	w := httptest.NewRecorder()
	out := stream.NewWriter(w)
	last, err := addTurnEvent(t.Context(), out, "a", readahead.Piece[chat.Event]{Err: fault.Errorf("read", api.CodeStoreUnavailable, "secret address")}, false)
	if !last || err != nil || out.Flush() != nil || strings.Contains(w.Body.String(), "id:") || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"code":"store_unavailable"`) {
		t.Errorf("%v, %v: %s", last, err, w.Body)
	}
}

func TestMarkdownOfEveryBlock(t *testing.T) {
	var b strings.Builder
	for _, block := range []api.Block{
		{Type: api.BlockThinking, Text: "hm"}, {Type: api.BlockToolUse, Name: "x", Input: json.RawMessage(`{`)},
		{Type: api.BlockToolResult, Text: "no", IsError: true, Truncated: true}, {Type: "unheard-of", Text: "x"},
	} {
		writeBlock(&b, block)
	}
	want := "\nThinking:\n\n```\nhm\n```\n\nTool x:\n\n```json\n\n```\n\nError:\n\n```\nno\n```\n\n_The rest is cut._\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}
