package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

func cannedTalks(t *testing.T) (*shell, *fakeServer, *talks) {
	f, k := newTalking(t)
	f.sandboxes = []api.Sandbox{{ID: "s1", Name: "box", State: "running"}}
	k.convs = []api.Conversation{
		{ID: "c3", Title: "Third", Status: "running", TurnID: "t9", Template: "demo", SandboxID: "s1", CreatedAt: birth, UpdatedAt: birth,
			Stats:       api.Stats{MessagesExchanged: 4, TotalInputTokens: 1000, TotalOutputTokens: 234, TotalCacheTokens: 12, TotalCacheReadTokens: 10, TotalCacheWriteTokens: 2, TotalCostUSD: 1.5},
			Undelivered: &api.Undelivered{Messages: 2, LastError: "no table"}, Metadata: map[string]string{"team": "blue"}},
		{ID: "c2", Status: "idle", CreatedAt: birth, UpdatedAt: birth}, {ID: "c1", Title: "First", Status: "idle", UpdatedAt: birth},
	}
	k.said["c3"] = []api.Message{
		{ID: "m1", Role: "user", Status: "completed", Content: []api.Block{{Type: api.BlockText, Text: "do it\n"}}, CreatedAt: birth},
		{ID: "m2", Role: "assistant", Status: "failed", Error: "it broke", Model: "demo", Usage: api.Usage{InputTokens: 1000, OutputTokens: 234}, CostUSD: 1.5, CreatedAt: birth, Content: []api.Block{
			{Type: api.BlockThinking, Text: "hm"}, {Type: api.BlockToolUse, Name: "bash", Input: quoteJSON("command", "ls")}, {Type: api.BlockToolUse, Name: "none"},
			{Type: api.BlockToolResult, Text: "a\nb", IsError: true}, {Type: api.BlockText, Text: "Done."}}},
		{ID: "m3", Role: "user", Status: "completed", Content: []api.Block{{Type: api.BlockText, Text: "more"}}, CreatedAt: birth},
	}
	return newShell(t, f), f, k
}

func TestConversationCommands(t *testing.T) {
	s, _, _ := cannedTalks(t)
	var out strings.Builder
	for _, line := range []string{"conversation ls", "conv ls -q --limit 2", "conversations ls --sandbox box", "conversation show", "conversation show -q", "conversation show c1",
		"conversation messages", "conversation messages c3 --limit 2 -q", "conversation messages --limit 1", "conversation export", "conversation export c1 --format md", "conversation show --json c1"} {
		out.WriteString("$ berth " + line + "\n" + s.ok(strings.Fields(line)...))
	}
	testkit.Golden(t, "testdata/output/conversations.txt", out.String())
	for want, line := range map[string]string{
		"has no sandbox yet":            "conversation show c2 -q",
		"Did you mean c1? 'berth conve": "conversation show c11",
		"--format is json or markdown":  "conversation export --format pdf",
		"'berth ls' lists":              "conversation ls --sandbox nosuch",
		"there is no conversation":      "conversation rm -y nosuch",
		"no such file or directory":     "conversation export -o /nosuch/dir/file",
	} {
		if r := s.berth(strings.Fields(line)...); r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v, want %q", line, r, want)
		}
	}
	if r := s.berth("conversation", "messages", "c1"); r.code != 0 || !strings.Contains(r.err, "Nothing has been said in it yet.") {
		t.Errorf("%+v", r)
	}
	empty, _ := newTalking(t)
	if r := newShell(t, empty).berth("conv", "ls"); r.code != 0 || !strings.Contains(r.err, "'berth chat PROMPT' begins one.") {
		t.Errorf("%+v", r)
	}
	if r := newShell(t, empty).berth("conv", "show"); r.code != 125 || !strings.Contains(r.err, "'berth chat PROMPT' begins one.") {
		t.Errorf("%+v", r)
	}
}

func TestConversationExportWritesAWholeFile(t *testing.T) {
	s, _, _ := cannedTalks(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "talk.md")
	if r := s.berth("conv", "export", "-o", file); r.code != 0 || r.out != "" || !strings.Contains(r.err, "wrote "+file+" (21 bytes)") {
		t.Errorf("%+v", r)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "exported as markdown\n" {
		t.Errorf("%q, %v", data, err)
	}
	if r := s.berth("conv", "export", "-o", "/dev/null"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if r := s.berth("conv", "export", "-o", dir); r.code != 125 {
		t.Errorf("%+v", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestConversationRm(t *testing.T) {
	s, f, k := cannedTalks(t)
	if out := s.ok("conv", "rm", "c1", "c2", "--keep-sandbox", "--no-save"); out != "deleted c1\ndeleted c2\n" {
		t.Errorf("%q", out)
	}
	m := newTerminal(t)
	m.Type("n\n")
	if r := newShell(t, f).at(m).berth("conv", "rm", "c3"); r.code != 125 || len(k.convs) != 1 {
		t.Errorf("exit %d, %d left", r.code, len(k.convs))
	}
	m.Wait("Delete conversation c3 and everything that was said in it for good? [y/N]")
	s.ok("conv", "rm", "-y", "c3")
	at := "/api/v1/conversations/"
	if got := strings.Join(k.ended, " "); got != at+"c1?sync=false&terminate_sandbox=false "+at+"c2?sync=false&terminate_sandbox=false "+at+"c3" {
		t.Errorf("%s", got)
	}
}

func TestConversationCompletion(t *testing.T) {
	s, _, _ := cannedTalks(t)
	for _, line := range [][]string{{"conv", "show", ""}, {"conv", "rm", ""}, {"chat", "-c", ""}, {"usage", "-c", ""}} {
		if got := strings.Join(s.words(line...), " "); got != "c3\tThird c2 c1\tFirst" {
			t.Errorf("%q: %q", line, got)
		}
	}
	if got := s.words("conv", "show", "c1", ""); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for _, line := range []string{"chat --template", "chat --model", "chat --agent", "conv export --format", "usage --by", "usage --days"} {
		if out := s.berth(append([]string{"__complete"}, append(strings.Fields(line), "")...)...).out; !strings.Contains(out, ":4\n") {
			t.Errorf("%s: %q", line, out)
		}
	}
}

func TestUsageReport(t *testing.T) {
	s, _, k := cannedTalks(t)
	used := func(in, out, read, write int64) api.Usage {
		return api.Usage{InputTokens: in, OutputTokens: out, CacheReadTokens: read, CacheWriteTokens: write}
	}
	total := api.UsageItem{Messages: 40, Usage: used(1234567, 1000, 10, 1), CostUSD: 12.5}
	reports := map[string][]api.UsageItem{
		"day":          {{Day: "2026-11-15", Messages: 38, Usage: used(1230000, 900, 10, 1), CostUSD: 12.4999}, {Day: "2026-11-14", Messages: 2, Usage: used(4567, 100, 0, 0), CostUSD: 0.0001}},
		"model":        {{Model: "claude", Messages: 20, Usage: used(1234567, 1000, 10, 1), CostUSD: 12.5}, {Messages: 20}},
		"conversation": {{ConversationID: "c3", Messages: 38, Usage: used(1, 2, 3, 4)}, {ConversationID: "gone", Messages: 2}},
	}
	var out strings.Builder
	for _, by := range []string{"day", "model", "conversation"} {
		k.usage = api.UsageReport{Items: reports[by], Total: total, Truncated: by == "conversation"}
		r := s.berth("usage", "--by", by)
		out.WriteString("$ berth usage --by " + by + "\n" + r.out + r.err)
		if !strings.Contains(k.query, "group_by="+by) || !strings.Contains(k.query, "from=") {
			t.Errorf("asked %q", k.query)
		}
	}
	testkit.Golden(t, "testdata/output/usage.txt", out.String())
	if got := decode[api.UsageReport](t, s.ok("usage", "--json", "--days", "1")); got.Total.CostUSD != 12.5 {
		t.Errorf("%+v", got)
	}
	k.usage = api.UsageReport{}
	if r := s.berth("usage", "--days", "1", "-c", "c1"); r.code != 0 || !strings.Contains(r.err, "Nothing was used in the last 1 day.") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"--by", "week"}, {"--days", "0"}, {"--days", "400"}, {"x"}} {
		if r := s.berth(append([]string{"usage"}, args...)...); r.code != 125 || !strings.Contains(r.err, "'berth usage --help'") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
