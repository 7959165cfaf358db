package app_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// office is a server whose sandboxes have the real Claude Code CLI, with a model's double behind a service of
// theirs.
type office struct {
	all    *testing.T // the test that its servers end with
	env    []string
	server *process
	model  *fakellm.Server
	saved  []savedTree
}

// savedTree is a version and the workspace as it was when it was saved.
type savedTree struct{ sandbox, version, tree string }

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{all: t, model: fakellm.New(t)}
	o.env = withConfig(t, local(t), fmt.Sprintf(`
[templates.office]
extends = "claude_code"
[templates.office.services]
"127.0.0.1:8788" = %q
[templates.office.env]
ANTHROPIC_BASE_URL = "http://127.0.0.1:8788"
ANTHROPIC_API_KEY = "dummy"
`, o.model.URL))
	o.server = start(t, o.env)
	return o
}

// install puts the CLI where 'berth template install claude_code' does.
func (o *office) install(t *testing.T) {
	t.Helper()
	p, dataDir := program.ClaudeCode, value(o.env, "BERTH_DATA_DIR")
	programtest.Place(t, p.Name, dataDir)
	if got := p.Installed(program.Dir(dataDir, p.Name)); got != p.Tested() {
		t.Fatalf("version %q is installed", got)
	}
}

// talk is one conversation.
type talk struct {
	*office
	*testing.T
	c  *client.Client
	id string
}

func (o *office) talk(t *testing.T) talk {
	t.Helper()
	return o.talkWith(t, "office")
}

func (o *office) talkWith(t *testing.T, template string) talk {
	t.Helper()
	c := o.server.client(t, client.WithAttempts(100))
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: template})
	if err != nil {
		t.Fatal(err)
	}
	return talk{o, t, c, conv.ID}
}

func (k talk) begin(prompt string) *client.TurnStream {
	k.Helper()
	k.model.Reset()
	stream, err := k.c.Conversations.Prompt(k.Context(), k.id, api.Prompt{Prompt: prompt})
	if err != nil {
		k.Fatal(err)
	}
	return stream
}

// answer is how a turn came out.
type answer struct {
	events []api.TurnEvent
	end    api.TurnEvent
	reply  api.Message
}

func (a answer) has(status string) bool {
	return slices.ContainsFunc(a.events, func(e api.TurnEvent) bool { return e.Type == api.EventStatus && e.Status == status })
}

func (k talk) ask(prompt, status string) answer {
	k.Helper()
	return k.rest(k.begin(prompt), status)
}

// rest reads a turn to its end. It must end so, with a message that counts what the model counted, and a
// version of the workspace.
func (k talk) rest(stream *client.TurnStream, status string) answer {
	k.Helper()
	var a answer
	for e, err := range stream.Events() {
		if err != nil {
			k.Fatal(err)
		}
		a.events = append(a.events, e)
	}
	a.end = lastEvent(k.T, a.events)
	for m, err := range k.c.Conversations.Newest(k.Context(), k.id) {
		if err != nil {
			k.Fatal(err)
		}
		a.reply = m
		break
	}
	if a.end.Status != status || a.reply.Status != status || a.reply.ID != a.end.MessageID || a.reply.Role != api.RoleAssistant {
		k.Errorf("the turn ended with %+v, the message is %+v; want it %s", a.end, a.reply, status)
	}
	used := k.model.Totals().All()
	want := api.Usage{InputTokens: int64(used.Input), OutputTokens: int64(used.Output), CacheReadTokens: int64(used.CacheRead), CacheWriteTokens: int64(used.CacheCreate)}
	if status == api.TurnCancelled { // a CLI that did not end in time was killed before it could report
		want.Estimated = a.reply.Usage.Estimated
	}
	if got := a.reply.Usage; got != *a.end.Usage || got != want && !(k.cut() && got.InputTokens >= want.InputTokens && got.OutputTokens >= want.OutputTokens) {
		k.Errorf("the message counts %+v, the last event %+v, the model %+v", a.reply.Usage, *a.end.Usage, want)
	}
	k.addsUp(a.end)
	k.note(a.end)
	return a
}

// cut reports whether the model's service was kept from giving an answer whole. The CLI may count such a call, by what
// had come of it.
func (k talk) cut() bool {
	return slices.ContainsFunc(k.model.Requests(), func(r fakellm.Request) bool { return r.Note != "" })
}

// addsUp demands that the stats, the usage report and the sandbox's metadata are the sum over the messages.
func (k talk) addsUp(end api.TurnEvent) {
	k.Helper()
	var want api.Stats
	for m, err := range k.c.Conversations.Messages(k.Context(), k.id) {
		if err != nil {
			k.Fatal(err)
		}
		want.MessagesExchanged++
		want.TotalInputTokens += m.Usage.InputTokens
		want.TotalOutputTokens += m.Usage.OutputTokens
		want.TotalCacheReadTokens += m.Usage.CacheReadTokens
		want.TotalCacheWriteTokens += m.Usage.CacheWriteTokens
		want.TotalCacheTokens += m.Usage.CacheReadTokens + m.Usage.CacheWriteTokens
		want.TotalCostUSD += m.CostUSD
		// A CLI that was killed, because it did not end in time after a cancel, has reported no cost.
		if used := m.Usage.OutputTokens > 0; m.CostUSD > 0 != used && !m.Usage.Estimated {
			k.Errorf("a message of %+v costs %v", m.Usage, m.CostUSD)
		}
	}
	conv, err := k.c.Conversations.Get(k.Context(), k.id)
	if err != nil {
		k.Fatal(err)
	}
	for name, got := range map[string]api.Stats{"conversation": conv.Stats, "last event": *end.Stats} {
		if math.Abs(got.TotalCostUSD-want.TotalCostUSD) < 1e-9 {
			got.TotalCostUSD = want.TotalCostUSD
		}
		if got != want {
			k.Errorf("the %s says %+v, the messages sum up to %+v", name, got, want)
		}
	}
	report, err := k.c.Usage(k.Context(), client.UsageFilter{ConversationID: k.id})
	if u := report.Total.Usage; err != nil || u.InputTokens != want.TotalInputTokens || u.OutputTokens != want.TotalOutputTokens ||
		u.CacheReadTokens+u.CacheWriteTokens != want.TotalCacheTokens || report.Total.Messages != want.MessagesExchanged {
		k.Errorf("the report says %+v, %v; want %+v", report.Total, err, want)
	}
	sb, err := k.c.Sandboxes.Get(k.Context(), conv.SandboxID)
	if err != nil {
		k.Fatal(err)
	}
	for name, n := range map[string]int64{
		"total_input_tokens": want.TotalInputTokens, "total_output_tokens": want.TotalOutputTokens, "total_cache_tokens": want.TotalCacheTokens,
	} {
		if sb.Metadata[name] != strconv.FormatInt(n, 10) {
			k.Errorf("the sandbox's %s is %q, not %d", name, sb.Metadata[name], n)
		}
	}
}

// whole is everything in a workspace: names, modes, links, and the hash of every file.
const whole = `find . -mindepth 1 ! -name '.sandbox-state*' -printf '%y %m %l %P\n' | sed 's/^l [0-7]*/l/' | sort
find . -type f ! -name '.sandbox-state*' -print0 | sort -z | xargs -0r sha256sum`

// note remembers what the workspace is at the end of a turn.
func (k talk) note(end api.TurnEvent) {
	k.Helper()
	tree := k.sh(whole)
	if end.VersionPending { // on a busy machine the save takes longer than the turn waits
		testkit.Eventually(k.T, time.Minute, func() error {
			t, err := k.c.Conversations.Turn(k.Context(), k.id, end.TurnID)
			if err == nil && t.VersionPending {
				err = errors.New("the turn is not saved yet")
			}
			end.Version, end.Warnings = t.Version, t.Warnings
			return err
		})
	}
	if len(end.Warnings) > 0 || (end.Version == "") != (tree == "") {
		k.Errorf("after the turn the version is %q, with warnings %q, of\n%s", end.Version, end.Warnings, tree)
	}
	if end.Version != "" {
		k.saved = append(k.saved, savedTree{end.SandboxID, end.Version, tree})
	}
}

// sh runs a script in the conversation's sandbox.
func (k talk) sh(script string) string {
	k.Helper()
	conv, err := k.c.Conversations.Get(k.Context(), k.id)
	if err != nil {
		k.Fatal(err)
	}
	return box{k.T, k.c, conv.SandboxID}.sh(script).Stdout
}

// await waits until the agent made a file.
func (k talk) await(file string) {
	k.Helper()
	testkit.Eventually(k.T, time.Minute, func() error {
		if k.sh("ls "+file) == "" {
			return fmt.Errorf("there is no %s", file)
		}
		return nil
	})
}

// The real CLI in real sandboxes of a real server: what it says, does, counts and leaves is there, whatever
// happens on the way.
func TestClaudeCode(t *testing.T) {
	testkit.Proves(t, "C7", "C8", "C9", "H7", "S7")
	t.Parallel()
	o := newOffice(t)
	t.Run("NotInstalled", o.notInstalled)
	t.Run("Plain", o.plain)
	t.Run("Tools", o.tools)
	t.Run("ThreeTurns", o.threeTurns)
	t.Run("Trouble", o.trouble)
	t.Run("Killed", o.killed)
	t.Run("SessionIsGone", o.sessionIsGone)
	t.Run("AnotherTenant", o.anotherTenant)
	t.Run("Versions", o.versions)
	if err := o.server.end(t); err != nil {
		t.Error(err)
	}
}

// What is missing is named with the command that installs it; once it is there, the same conversation goes on.
func (o *office) notInstalled(t *testing.T) {
	k := o.talk(t)
	a := k.ask("are you there?", api.TurnFailed)
	if a.end.Code != api.CodeAgentNotInstalled || !strings.Contains(a.end.Message, "berth template install claude_code") || a.reply.Error != a.end.Message {
		t.Errorf("%+v, %+v", a.end, a.reply)
	}
	o.install(t)
	if a = k.ask("[[say hello]]", api.TurnCompleted); a.reply.Text() != "hello" || a.has("session_replaced") {
		t.Errorf("%q, %v", a.reply.Text(), types(a.events))
	}
}

func (o *office) plain(t *testing.T) {
	a := o.talk(t).ask("[[think Hm.]][[chunk 4]][[say A plain answer.]]", api.TurnCompleted)
	var deltas string
	for _, e := range a.events {
		if e.Type == api.EventTextDelta {
			deltas += e.Text
		}
	}
	if a.reply.Text() != "A plain answer." || deltas != "A plain answer." || a.reply.Model == "" || a.reply.DurationMS <= 0 || a.end.CostUSD != a.reply.CostUSD {
		t.Errorf("%q of %q, %+v", a.reply.Text(), deltas, a.reply)
	}
}

func (o *office) tools(t *testing.T) {
	k := o.talk(t)
	a := k.ask("[[write /workspace/a.txt :: one]][[bash mkdir sub; cat a.txt; echo two >sub/b.txt; chmod 700 sub; ln -s a.txt link]]"+
		"[[next]][[read /workspace/sub/b.txt]][[say {{last_result}}]]", api.TurnCompleted)
	if got := k.sh("cat a.txt sub/b.txt link"); got != "onetwo\none" || !strings.Contains(a.reply.Text(), "two") {
		t.Errorf("the files are %q, it says %q", got, a.reply.Text())
	}
	var calls, results []string
	for _, b := range a.reply.Content {
		switch b.Type {
		case api.BlockToolUse:
			calls = append(calls, b.ID)
		case api.BlockToolResult:
			results = append(results, b.ToolUseID)
		}
	}
	if len(calls) != 3 || !slices.Equal(slices.Sorted(slices.Values(calls)), slices.Sorted(slices.Values(results))) {
		t.Errorf("calls %v, results %v", calls, results)
	}
}

func (o *office) threeTurns(t *testing.T) {
	k := o.talk(t)
	const first = "[[say I do]] remember the heron" // the model's double counts prompts that say what it is to answer
	k.ask(first, api.TurnCompleted)
	for n := 2; n <= 3; n++ {
		want := fmt.Sprintf("turn %d after: %s", n, first)
		if a := k.ask("[[say turn {{turn}} after: {{first_prompt}}]][[bash date +%N >>log]]", api.TurnCompleted); !strings.Contains(a.reply.Text(), want) || a.has("session_replaced") {
			t.Errorf("it says %q, not %q; %v", a.reply.Text(), want, types(a.events))
		}
	}
}

// A turn that fails, one that is cancelled and one whose model's stream is cut: the conversation goes on.
func (o *office) trouble(t *testing.T) {
	k := o.talk(t)
	a := k.ask("[[bash echo before >e]][[error 400]]", api.TurnFailed)
	if a.end.Code != api.CodeAgentFailed || !strings.Contains(a.end.Message, "scripted failure 400") || a.reply.Error != a.end.Message || a.reply.Text() != "" {
		t.Errorf("an error of the model's: %+v, %+v", a.end, a.reply)
	}
	stream := k.begin("[[say on it]][[bash echo >begun; exec sleep 9731]][[say never]]")
	k.await("begun")
	if _, err := k.c.Conversations.Cancel(t.Context(), k.id, stream.TurnID); err != nil {
		t.Fatal(err)
	}
	a = k.rest(stream, api.TurnCancelled)
	if a.reply.Text() != "on it" || k.sh("grep -l 9731 /proc/[0-9]*/cmdline 2>/dev/null | grep -v self") != "" && k.sh("pgrep -x sleep") != "" {
		t.Errorf("cancelled, it had said %q; what runs: %s", a.reply.Text(), k.sh("ps ax"))
	}
	if _, err := k.c.Conversations.Cancel(t.Context(), k.id, stream.TurnID); problem(err).Code != api.CodeTurnFinished {
		t.Errorf("cancelled twice: %v", err)
	}
	a = k.ask("[[chunk 3]][[cut 6]][[faults 1]][[say an answer that is cut in the middle]]", api.TurnCompleted)
	if a.reply.Text() != "an answer that is cut in the middle" {
		t.Errorf("after a cut it says %q", a.reply.Text())
	}
}

// The server is killed in the middle of an answer and started again. The agent's call of its model goes on: the model is
// called once for each step. Who follows the turn has every event once.
func (o *office) killed(t *testing.T) {
	k := o.talk(t)
	const answer = "an answer that outlives its server"
	stream := k.begin("[[say First.]][[bash echo one >>once]][[chunk 3]][[hold middle@6]][[say " + answer + "]]")
	o.model.WaitHeld(t, "middle")
	if err := o.server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.server.cmd.Wait()
	o.model.Release("middle")
	address := strings.TrimPrefix(o.server.url, "http://")
	o.server = start(o.all, append(o.env, "BERTH_LISTEN="+address))
	a := k.rest(stream, api.TurnCompleted)
	if !strings.HasSuffix(a.reply.Text(), answer) || k.sh("cat once") != "one\n" {
		t.Errorf("it says %q; it wrote %q", a.reply.Text(), k.sh("cat once"))
	}
	calls := slices.DeleteFunc(o.model.Requests(), func(r fakellm.Request) bool { return r.Side || !strings.HasSuffix(r.Path, "/messages") })
	if len(calls) != 2 {
		t.Errorf("the model was called %d times for two steps: %+v", len(calls), calls)
	}
	log := readTurn(t, k.c, k.id, stream.TurnID, 0)
	if fmt.Sprint(types(a.events)) != fmt.Sprint(types(log)) || spoken(a.events) != spoken(log) || stream.After() != int64(len(log)) {
		t.Errorf("it read\n%v\n%q\nand the log is\n%v\n%q", types(a.events), spoken(a.events), types(log), spoken(log))
	}
}

// The agent's session is gone: a new one knows what was said, and whoever watches is told.
func (o *office) sessionIsGone(t *testing.T) {
	k := o.talk(t)
	k.ask("remember the heron", api.TurnCompleted)
	k.sh("rm -r /workspace/.berth/claude/projects")
	a := k.ask("[[say It began with: {{first_prompt}}]]", api.TurnCompleted)
	for _, want := range []string{"User: remember the heron", "Assistant: fake reply to: remember the heron"} {
		if !a.has("session_replaced") || !strings.Contains(a.reply.Text(), want) {
			t.Errorf("it says %q, without %q; %v", a.reply.Text(), want, types(a.events))
		}
	}
	if a = k.ask("[[say turn {{turn}}]]", api.TurnCompleted); a.reply.Text() != "turn 2" || a.has("session_replaced") {
		t.Errorf("then it says %q; %v", a.reply.Text(), types(a.events))
	}
}

// anotherTenant looks for all that the others did, and finds nothing.
func (o *office) anotherTenant(t *testing.T) {
	k := o.talk(t)
	stream := k.begin("[[say secret]]")
	k.rest(stream, api.TurnCompleted)
	conv, err := k.c.Conversations.Get(t.Context(), k.id)
	if err != nil {
		t.Fatal(err)
	}
	key, err := k.c.Keys.Create(t.Context(), api.CreateKey{Label: "other", Tenant: "acme", Scope: api.ScopeAdmin})
	if err != nil {
		t.Fatal(err)
	}
	c := o.server.clientOf(t, key.Secret)
	talks, ctx := c.Conversations, t.Context()
	for what, do := range map[string]func() error{
		"conversation": func() error { _, err := talks.Get(ctx, k.id); return err },
		"turn":         func() error { _, err := talks.Turn(ctx, k.id, stream.TurnID); return err },
		"events":       func() error { _, err := talks.Follow(ctx, k.id, stream.TurnID, 0); return err },
		"cancel":       func() error { _, err := talks.Cancel(ctx, k.id, stream.TurnID); return err },
		"prompt":       func() error { _, err := talks.Prompt(ctx, k.id, api.Prompt{Prompt: "x"}); return err },
		"export":       func() error { _, err := talks.Export(ctx, k.id, "json"); return err },
		"delete":       func() error { return talks.Delete(ctx, k.id) },
		"messages":     func() error { return firstError(talks.Messages(ctx, k.id)) },
		"turns":        func() error { return firstError(talks.Turns(ctx, k.id)) },
		"sandbox":      func() error { _, err := c.Sandboxes.Get(ctx, conv.SandboxID); return err },
		"versions":     func() error { return firstError(c.Sandboxes.Versions(ctx, conv.SandboxID)) },
	} {
		if err := do(); problem(err).Code != api.CodeNotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	for other, err := range talks.List(ctx, client.ConversationFilter{}) {
		t.Errorf("listed %+v, %v", other, err)
	}
	// The same id names another sandbox here, and no answer shows that the first one exists.
	if _, _, err := talks.Create(ctx, api.CreateConversation{SandboxID: conv.SandboxID}); err != nil {
		t.Error(err)
	}
	if _, err := c.Sandboxes.Get(ctx, conv.SandboxID); problem(err).Code != api.CodeNotFound {
		t.Errorf("the sandbox of another tenant: %v", err)
	}
	if report, err := c.Usage(ctx, client.UsageFilter{}); err != nil || report.Total.Messages != 0 {
		t.Errorf("used %+v, %v", report, err)
	}
	k.ask("[[say still here]]", api.TurnCompleted)
}

// firstError is what a list says instead of anything.
func firstError[T any](list func(func(T, error) bool)) error {
	for _, err := range list {
		return err
	}
	return errors.New("the list is empty")
}

// Every version is the workspace as it was at the end of its turn, byte by byte.
func (o *office) versions(t *testing.T) {
	c := o.server.client(t)
	for i, s := range o.saved {
		name := fmt.Sprint("restored-", i)
		if _, err := c.Sandboxes.Restore(t.Context(), s.sandbox, api.RestoreVersion{Version: s.version, Into: name}); err != nil {
			t.Fatal(err)
		}
		if got := (box{t, c, name}).sh(whole).Stdout; got != s.tree || !strings.Contains(got, ".jsonl") && i > 0 {
			t.Errorf("version %d was\n%s\nand is\n%s", i, s.tree, got)
		}
		if err := c.Sandboxes.Delete(t.Context(), name, client.Purge()); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.saved) < 10 {
		t.Errorf("only %d versions were saved", len(o.saved))
	}
}
