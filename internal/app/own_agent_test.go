package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
)

// The programs of the page about agents of one's own do in real sandboxes what the page says.
func TestAgentsOfThePage(t *testing.T) {
	testkit.Proves(t, "H7")
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/own-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, language := range map[string]string{"search.sh": "sh", "ask.py": "python"} {
		block := regexp.MustCompile("(?s)```" + language + "\n(#!.*?)```").FindSubmatch(page)
		if block == nil {
			t.Fatalf("the page has no program in %s", language)
		}
		if lines := strings.Count(strings.TrimSpace(string(block[1])), "\n") + 1; lines > 16 {
			t.Errorf("the program in %s has %d lines", language, lines)
		}
		if err := os.WriteFile(filepath.Join(dir, name), block[1], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	model := fakellm.New(t)
	p := start(t, withConfig(t, append(local(t), "BERTH_PRICES=*=3/15/0.3/3.75"), fmt.Sprintf(`
[templates.search]
runtime = "lines"
agent_command = ["/opt/agents/search.sh"]
mounts = [{source = %[1]q, target = "/opt/agents"}]
[templates.ask]
extends = "search"
agent_command = ["/opt/agents/ask.py"]
services = {"127.0.0.1:8788" = %[2]q}
env = {ANTHROPIC_BASE_URL = "http://127.0.0.1:8788", ANTHROPIC_API_KEY = "dummy"}
`, dir, model.URL)))

	o := &office{all: t, server: p, model: model}
	k := o.talkWith(t, "search")
	k.ask("fish", api.TurnCompleted)
	k.sh("echo the heron >birds; echo fish >others")
	if a := k.ask("heron", api.TurnCompleted); a.reply.Text() != "Files with \"heron\":\n./birds\nThat was question 2." || a.reply.Model != "grep" {
		t.Errorf("%q by %s", a.reply.Text(), a.reply.Model)
	}
	if a := k.ask("no such word", api.TurnCompleted); a.reply.Text() != "Files with \"no such word\":\nnone\nThat was question 3." {
		t.Errorf("%q", a.reply.Text())
	}

	k = o.talkWith(t, "ask")
	k.ask("[[say I do]] remember the heron", api.TurnCompleted)
	a := k.ask("[[say turn {{turn}} after: {{first_prompt}}]]", api.TurnCompleted)
	if a.reply.Text() != "turn 2 after: [[say I do]] remember the heron" || a.reply.Usage.Estimated || a.reply.Usage.OutputTokens == 0 {
		t.Errorf("%q, %+v", a.reply.Text(), a.reply.Usage)
	}
}
