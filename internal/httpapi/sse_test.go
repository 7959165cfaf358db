package httpapi

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/ahead"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/turn"
)

// Line breaks between the tokens of JSON end no line of a frame.
func TestFrameIsOneLine(t *testing.T) {
	w := httptest.NewRecorder()
	out := newEvents(w)
	first := out.addJSON("a.1", []byte("{\"a\":\r"), []byte("\n1}"))
	out.comment()
	if err := errors.Join(first, out.add("", map[string]string{"b": "\n"}), out.flush(), out.flush()); err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); got != "id: a.1\ndata: {\"a\":  1}\n\n: berth\n\ndata: {\"b\":\"\\n\"}\n\n" {
		t.Errorf("%q", got)
	}
	if err := out.add("", func() {}); err == nil {
		t.Error("what is no JSON was added")
	}
}

// A log that cannot be read now ends the stream, and the reader's place stays.
func TestTroubleEndsATurnStream(t *testing.T) {
	w := httptest.NewRecorder()
	out := newEvents(w)
	last, err := addTurnEvent(t.Context(), out, "a", ahead.Piece[turn.Event]{Err: sandbox.Errorf("read", api.CodeStoreUnavailable, "secret address")}, false)
	if !last || err != nil || out.flush() != nil || strings.Contains(w.Body.String(), "id:") || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"code":"store_unavailable"`) {
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
	want := "\nThinking:\n\n```\nhm\n```\n\nTool x:\n\n```json\n\n```\n\nError:\n\n```\nno\n```\n\n_It was longer than what is kept._\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}
