package slack

import (
	"strings"
	"testing"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/api"
)

// TestStreamIsAppended checks that the pieces of a stream add up to the text, wherever the text is cut, and that none of
// it can mention anyone.
func TestStreamIsAppended(t *testing.T) {
	const text = "Hello <!channel> and <@U1>, [x](!here) [y]( \n@U2) <#C1|c>\n\n[z]: !everyone\n# Title ü 🙂 <https://example.com> (see #3)"
	v, s, got := newView(), stream{}, ""
	for _, c := range text {
		v.add(api.TurnEvent{Type: api.EventTextDelta, Text: string(c)})
		next, chunks, ok := s.chunks(v)
		if !ok {
			t.Fatalf("the text can not be appended after %q", got)
		}
		for _, c := range chunks {
			if piece, isText := c.(slackgo.MarkdownTextChunk); isText {
				got += piece.Text
			}
		}
		s = next
	}
	if strings.ReplaceAll(got, "\u200b", "") != text {
		t.Errorf("streamed %q", got)
	}
	for _, bad := range []string{"<!", "<@", "<#", "(!", "\n@", ": !"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q is in %q", bad, got)
		}
	}
	v.add(api.TurnEvent{Type: api.EventText, Text: "another text"})
	if _, _, ok := s.chunks(v); ok {
		t.Error("a text that has changed was appended")
	}
	long := newView()
	long.add(api.TurnEvent{Type: api.EventText, Text: strings.Repeat("x", 12_000)})
	if _, _, ok := (&stream{}).chunks(long); ok {
		t.Error("a text was appended that is too long")
	}
}
