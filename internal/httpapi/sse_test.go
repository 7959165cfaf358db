package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/turn"
)

// Line breaks between the tokens of JSON end no line of a frame.
func TestFrameIsOneLine(t *testing.T) {
	w := httptest.NewRecorder()
	out := newEvents(w)
	if err := errors.Join(out.sendJSON("a.1", []byte("{\"a\":\r\n1}")), out.comment(), out.send("", map[string]string{"b": "\n"})); err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); got != "id: a.1\ndata: {\"a\":  1}\n\n: berth\n\ndata: {\"b\":\"\\n\"}\n\n" {
		t.Errorf("%q", got)
	}
	if err := out.send("", func() {}); err == nil {
		t.Error("what is no JSON was sent")
	}
}

// A log that cannot be read now ends the stream, and the reader's place stays.
func TestTroubleEndsATurnStream(t *testing.T) {
	w := httptest.NewRecorder()
	last, err := sendTurnEvent(t.Context(), newEvents(w), "a", piece[turn.Event]{err: sandbox.Errorf("read", api.CodeStoreUnavailable, "secret address")}, false)
	if !last || err != nil || strings.Contains(w.Body.String(), "id:") || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"code":"store_unavailable"`) {
		t.Errorf("%v, %v: %s", last, err, w.Body)
	}
}

func TestWithoutRaw(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"text","text":"a"}`:                             `{"type":"text","text":"a"}`,
		`{"type":"text","text":"a","raw":{"b":1}}`:               `{"type":"text","text":"a"}`,
		`{"type":"tool.call","input":{"a":1,"raw":2},"raw":[1]}`: `{"type":"tool.call","input":{"a":1,"raw":2}}`,
		`{"type":"text","text":",\"raw\":1"}`:                    `{"type":"text","text":",\"raw\":1"}`,
		`{"type":"text","raw":`:                                  `{"type":"text","raw":`,
	} {
		if got := string(withoutRaw([]byte(text))); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// Whoever stops listening leaves nothing running.
func TestPumpEndsWithItsReader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var endless iter.Seq2[int, error] = func(yield func(int, error) bool) {
		defer close(ended)
		for i := 0; yield(i, nil); i++ {
		}
	}
	pieces := pump(ctx, endless)
	<-pieces
	cancel()
	<-ended
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
