package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/claudetest"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// The agent has the MCP servers of its template.
func TestClaudeHasTheServersOfItsTemplate(t *testing.T) {
	testkit.Proves(t, "P3")
	t.Parallel()
	model := fakellm.New(t)
	env := withConfig(t, local(t), fmt.Sprintf(`
[templates.tooled]
extends = "claude_code"
mounts = [{source = %q, target = "/opt/tools"}, {source = %q, target = "/opt/claude"}]
services = {"127.0.0.1:8788" = %q}
env = {ANTHROPIC_BASE_URL = "http://127.0.0.1:8788", ANTHROPIC_API_KEY = "dummy", OF_TEMPLATE = "template"}
[templates.tooled.mcp_servers.good]
command = ["/opt/tools/server"]
env = {OF_SERVER = "server"}
`, tooltest.Server(t), claudetest.Dir(t), model.URL))
	c := start(t, env).client(t, client.WithAttempts(100))
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "tooled"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "[[tool mcp__good__env {}]][[say {{last_result}}]]"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
	}
	for m, err := range c.Conversations.Newest(t.Context(), conv.ID) {
		if err != nil || m.Status != api.TurnCompleted || !strings.Contains(m.Text(), "template server /workspace 1000") {
			t.Errorf("%+v, %v", m, err)
		}
		break
	}
}
