package demo_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent/agenttest"
)

// The first five minutes.
func TestStory(t *testing.T) {
	h := harness(t)
	turn := agenttest.Turn("Write a file notes.txt: buy milk")
	var all string
	for n, c := range []struct{ prompt, says string }{
		{turn.Prompt, "notes.txt is in the workspace"},
		{"read notes.txt", "buy milk"},
		{"list", "notes.txt"},
		{"run wc -w notes.txt; yes | head -c 1000000 >&2", "2 notes.txt"},
		{"read nosuch.txt", "did not work"},
		{"Who are you?", "You can ask me to"},
	} {
		if n > 0 {
			turn = agenttest.Next(turn, c.prompt)
		}
		o := h.Do(t, turn)
		if o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), c.says) {
			t.Errorf("%s: %q, %+v", c.prompt, o.Text(), o.End)
		}
		words := len(strings.Fields(o.Text()))
		if u := o.End.Usage; u.OutputTokens != int64(words) || u.InputTokens != int64(len(strings.Fields(c.prompt))) || !u.Estimated || o.End.CostUSD != 0 {
			t.Errorf("%s: %d words, %+v", c.prompt, words, o.End)
		}
		all += o.Text()
	}
	if strings.Count(all, "I am Berth's demo agent") != 1 || !strings.Contains(all, "no model") {
		t.Errorf("it says %q", all)
	}
}
