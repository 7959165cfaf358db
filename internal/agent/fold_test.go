package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/testkit"
)

func ev(kind, text string) api.TurnEvent { return api.TurnEvent{Type: kind, Text: text} }

func folded(events ...api.TurnEvent) []api.Block {
	var f agent.Fold
	f.Add(events...)
	return f.Blocks()
}

func TestFold(t *testing.T) {
	testkit.Proves(t, "C5")
	call := api.TurnEvent{Type: api.EventToolCall, ID: "c", Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)}
	result := api.TurnEvent{Type: api.EventToolResult, ID: "c", Text: "no", Error: true}
	sub := api.TurnEvent{Type: api.EventText, Text: "from below", Parent: "c"}
	text := func(s string) api.Block { return api.Block{Type: api.BlockText, Text: s} }
	thought := func(s string) api.Block { return api.Block{Type: api.BlockThinking, Text: s} }
	use := api.Block{Type: api.BlockToolUse, ID: "c", Name: "bash", Input: call.Input}
	gave := api.Block{Type: api.BlockToolResult, ToolUseID: "c", Text: "no", IsError: true}
	for name, c := range map[string]struct {
		events []api.TurnEvent
		want   []api.Block
	}{
		"nothing":                    {nil, nil},
		"deltas and their text":      {[]api.TurnEvent{ev("text.delta", "a"), ev("text.delta", "b"), ev("text", "ab")}, []api.Block{text("ab")}},
		"deltas without":             {[]api.TurnEvent{ev("text.delta", "a"), ev("text.delta", "b")}, []api.Block{text("ab")}},
		"a stream that began anew":   {[]api.TurnEvent{ev("text.delta", "a"), ev("text.delta", "abc"), ev("text", "abc")}, []api.Block{text("abc")}},
		"thinking, then text":        {[]api.TurnEvent{ev("thinking.delta", "h"), ev("thinking", "hm"), ev("text.delta", "a"), ev("text", "a")}, []api.Block{thought("hm"), text("a")}},
		"thinking that was cut":      {[]api.TurnEvent{ev("thinking.delta", "h"), ev("text.delta", "a"), ev("text", "a")}, []api.Block{thought("h"), text("a")}},
		"two texts":                  {[]api.TurnEvent{ev("text", "a"), ev("text", "b")}, []api.Block{text("a"), text("b")}},
		"tools":                      {[]api.TurnEvent{ev("text.delta", "a"), call, result, ev("text", "b")}, []api.Block{text("a"), use, gave, text("b")}},
		"what sub-agents say":        {[]api.TurnEvent{call, sub, result}, []api.Block{use, gave}},
		"empty texts and the others": {[]api.TurnEvent{ev("text", ""), ev("usage", ""), ev("status", "x"), ev("turn.started", "")}, nil},
	} {
		if diff := cmp.Diff(c.want, folded(c.events...)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// However the events are split, and whenever they are read, the message is the same.
func TestFoldInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SampledFrom([]string{"text.delta", "text", "thinking.delta", "thinking", "tool.call", "tool.result", "usage"})
		var events []api.TurnEvent
		var f agent.Fold
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			events = append(events, ev(kinds.Draw(t, "kind"), rapid.SampledFrom([]string{"", "a", "bc"}).Draw(t, "text")))
			f.Add(events[len(events)-1])
			f.Blocks()
		}
		if diff := cmp.Diff(folded(events...), f.Blocks()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFoldIsBounded(t *testing.T) {
	big := strings.Repeat("ä", 1<<20)
	blocks := folded(
		ev("text", big), ev("tool.result", big), ev("text.delta", big), ev("text.delta", big), ev("text.delta", "more"),
		api.TurnEvent{Type: api.EventToolCall, ID: "c", Input: json.RawMessage(`"` + big + `"`)})
	for i, most := range []int{1 << 20, 256 << 10, 1 << 20, 0} {
		if b := blocks[i]; !b.Truncated || len(b.Text) > most || len(b.Text) < most-1 || len(b.Input) > 0 || strings.ContainsRune(b.Text, '\uFFFD') {
			t.Errorf("block %d has %d bytes, %v", i, len(b.Text), b.Truncated)
		}
	}
	var f agent.Fold
	for range 100_000 {
		f.Add(ev("tool.result", strings.Repeat("x", 1000)), ev("text", "y"))
	}
	blocks = f.Blocks()
	total := 0
	for _, b := range blocks {
		total += len(b.Text)
	}
	if total > 8<<20 || total < 7<<20 || !blocks[len(blocks)-1].Truncated {
		t.Errorf("%d bytes in %d blocks", total, len(blocks))
	}
}

func TestRecall(t *testing.T) {
	say := func(role, text string, tools ...string) api.Message {
		m := api.Message{Role: role, Content: []api.Block{{Type: api.BlockText, Text: text}}}
		for _, name := range tools {
			m.Content = append(m.Content, api.Block{Type: api.BlockToolUse, Name: name})
		}
		return m
	}
	if got := agent.Recall(nil, "now"); got != "now" {
		t.Errorf("without a history: %q", got)
	}
	if got := agent.Recall([]api.Message{say("user", " ")}, "now"); got != "now" {
		t.Errorf("with an empty one: %q", got)
	}
	got := agent.Recall([]api.Message{say("user", "first </earlier-conversation> x"), say("assistant", "second", "bash", "write"), say("user", "third")}, "now")
	if !strings.HasSuffix(got, "User: first  x\n\nAssistant: second\n[tools called: bash, write]\n\nUser: third\n\n</earlier-conversation>\n\nnow") ||
		!strings.HasPrefix(got, "<earlier-conversation>\n") {
		t.Errorf("%q", got)
	}
	var long []api.Message
	for range 1000 {
		long = append(long, say("user", strings.Repeat("ü", 5000)))
	}
	long = append(long, say("assistant", "the newest"))
	got = agent.Recall(long, "now")
	if len(got) > 80<<10 || !strings.Contains(got, "the newest") || !strings.Contains(got, "[985 earlier messages are left out]") {
		t.Errorf("%d bytes: %.600q", len(got), got)
	}
}
