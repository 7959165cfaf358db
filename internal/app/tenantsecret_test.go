package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// spellOut is an agent that prints its key as a whole, then in two parts with a pause between them, by default for as
// long as a server needs to be killed.
const spellOut = `
key=$(printenv THE_KEY); printf %s "$key" >/tmp/has
say() { printf '{"type":"delta","text":"%s"}\n' "$1"; }
say "begin $key. "; sleep 0.3; say "In parts: ${key%??????????}"; touch /tmp/half; sleep ${PAUSE:-0}; say "${key#"${key%??????????}"}"; say ", that was it."
echo "$key" >&2`

func secretTemplates() string {
	return fmt.Sprintf(`
[templates.named]
extends = "demo"
tenants = ["*"]
runtime = "lines"
agent_command = ["/bin/sh", "-c", %[1]q]
env_from = ["THE_KEY"]
[templates.open]
extends = "named"
redact = false
[templates.slow]
extends = "named"
env = {PAUSE = "8"}
[templates.unnamed]
extends = "demo"
runtime = "lines"
agent_command = ["/bin/sh", "-c", %[1]q]
`, spellOut)
}

// keyTurn is one turn of a new conversation, or of the given one, and what the agent had as its key.
type keyTurn struct {
	conv      api.Conversation
	text, key string
	events    []api.TurnEvent
}

func askForKey(t *testing.T, c *client.Client, template, conv string) (k keyTurn) {
	t.Helper()
	var err error
	if conv == "" {
		if k.conv, _, err = c.Conversations.Create(t.Context(), api.CreateConversation{Template: template}); err != nil {
			t.Fatal(err)
		}
		conv = k.conv.ID
	}
	stream, err := c.Conversations.Prompt(t.Context(), conv, api.Prompt{Prompt: "spell"}, client.WithRaw())
	if err != nil {
		t.Fatal(err)
	}
	return readKeyTurn(t, c, conv, stream)
}

func readKeyTurn(t *testing.T, c *client.Client, conv string, stream *client.TurnStream) (k keyTurn) {
	t.Helper()
	for e, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
		k.events = append(k.events, e)
	}
	k.text = lastMessage(t, c, conv).Text()
	var err error
	if k.conv, err = c.Conversations.Get(t.Context(), conv); err != nil {
		t.Fatal(err)
	}
	k.key = box{t, c, k.conv.SandboxID}.sh("cat /tmp/has").Stdout
	return k
}

func lastMessage(t *testing.T, c *client.Client, conv string) api.Message {
	t.Helper()
	for m, err := range c.Conversations.Newest(t.Context(), conv) {
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	t.Fatal("there is no message")
	return api.Message{}
}

const redactedText = "begin [redacted:THE_KEY]. In parts: [redacted:THE_KEY], that was it."

// A tenant's secret reaches the turns of its sandboxes whose template names it, the newest value each, and is replaced in
// what the agent prints: in events, raw lines and messages, and so in the database. It outlives the server and a new root
// secret.
func TestSecretsReachTurns(t *testing.T) {
	testkit.Proves(t, "E5")
	testkit.Proves(t, "E7")
	t.Parallel()
	onLocal(t, func(t *testing.T, env []string) {
		env = withConfig(t, env, secretTemplates())
		p := start(t, env)
		c := p.client(t)
		first, second := canaries["tenant"], canaries["rotated"]
		set := func(value string) {
			t.Helper()
			if _, err := c.Secrets.Set(t.Context(), "THE_KEY", value); err != nil {
				t.Fatal(err)
			}
		}
		set(first)
		k := askForKey(t, c, "named", "")
		if k.key != first || k.text != redactedText {
			t.Errorf("the agent had %q and printed %q", k.key, k.text)
		}
		if all, _ := json.Marshal(k.events); bytes.Contains(all, []byte(first)) || !bytes.Contains(all, []byte(`"raw"`)) {
			t.Errorf("the events have the key, or no raw lines: %s", all)
		}
		incarnation := k.conv.SandboxID + box{t, c, k.conv.SandboxID}.sh("cat /proc/sys/kernel/random/boot_id; stat -c %y /proc/1").Stdout
		set(second)
		if k = askForKey(t, c, "", k.conv.ID); k.key != second || k.text != redactedText {
			t.Errorf("after the rotation the agent had %q and printed %q", k.key, k.text)
		}
		if now := k.conv.SandboxID + (box{t, c, k.conv.SandboxID}).sh("cat /proc/sys/kernel/random/boot_id; stat -c %y /proc/1").Stdout; now != incarnation {
			t.Errorf("the sandbox was started again: %s, then %s", incarnation, now)
		}
		if other := askForKey(t, c, "unnamed", ""); other.key != "" {
			t.Errorf("a template that does not name it: %q", other.key)
		}
		key, err := c.Keys.Create(t.Context(), api.CreateKey{Tenant: "acme", Scope: api.ScopeAdmin})
		if err != nil {
			t.Fatal(err)
		}
		if other := askForKey(t, p.clientOf(t, key.Secret), "named", ""); other.key != "" {
			t.Errorf("another tenant's agent had %q", other.key)
		}
		wantNoCanaries(t, env, "while the server runs")

		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(filepath.Join(value(env, "BERTH_DATA_DIR"), "secret.key"))
		if err != nil {
			t.Fatal(err)
		}
		p = start(t, append(env, "BERTH_SECRET_KEY="+canaries["key"], "BERTH_SECRET_KEY_PREVIOUS="+strings.TrimSpace(string(old))))
		testkit.Eventually(t, time.Minute, func() error {
			for _, check := range p.ready(t).Checks {
				if check.Name == "secret" && strings.Contains(check.Detail, "no longer needed in secret_key_previous") {
					return nil
				}
			}
			return errors.New("the values are not encrypted with the new root secret")
		})
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		p = start(t, append(env, "BERTH_SECRET_KEY="+canaries["key"]))
		c = p.client(t)
		if k = askForKey(t, c, "", k.conv.ID); k.key != second || k.text != redactedText {
			t.Errorf("under a new root secret the agent had %q and printed %q", k.key, k.text)
		}
		if err := c.Secrets.Delete(t.Context(), "THE_KEY"); err != nil {
			t.Fatal(err)
		}
		if k = askForKey(t, c, "", k.conv.ID); k.key != "" {
			t.Errorf("after its deletion the agent had %q", k.key)
		}
		wantNoCanaries(t, env, "at the end")
		for _, canary := range []string{first, second} {
			if strings.Contains(p.logs.String(), canary) {
				t.Errorf("the log has %s", canary)
			}
		}
	})
}

// A server is killed while a half of the secret waits for the other half. The next one goes on without a gap or a
// repeat, and the log never has the secret.
func TestSecretIsRedactedWhenTheServerIsKilled(t *testing.T) {
	testkit.Proves(t, "E5")
	testkit.Proves(t, "C4")
	t.Parallel()
	env := withConfig(t, local(t), secretTemplates())
	p := start(t, env)
	c := p.client(t)
	if _, err := c.Secrets.Set(t.Context(), "THE_KEY", canaries["tenant"]); err != nil {
		t.Fatal(err)
	}
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "spell"})
	if err != nil {
		t.Fatal(err)
	}
	turn := stream.TurnID
	for e, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if turn = stream.TurnID; strings.HasPrefix(e.Text, "begin") {
			break // the next delta is held back
		}
	}
	_ = stream.Close()
	if conv, err = c.Conversations.Get(t.Context(), conv.ID); err != nil {
		t.Fatal(err)
	}
	// The agent prints nothing while the server reads the half, for longer than that takes.
	box{t, c, conv.SandboxID}.says("until [ -e /tmp/half ]; do sleep 0.1; done; sleep 1.5", "")
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if strings.Contains(p.logs.String(), "turn finished") {
		t.Fatal("the turn had finished before the server was killed")
	}
	wantNoCanaries(t, env, "after the kill")
	p = start(t, env)
	c = p.client(t)
	events := readTurn(t, c, conv.ID, turn, 0)
	if got := strings.ReplaceAll(spoken(events), "\n", ""); got != redactedText {
		t.Errorf("the log has %q", got)
	}
	if got := lastMessage(t, c, conv.ID).Text(); got != redactedText {
		t.Errorf("the message is %q", got)
	}
	wantNoCanaries(t, env, "at the end")
	if conv, err = c.Conversations.Get(t.Context(), conv.ID); err != nil {
		t.Fatal(err)
	}
	box{t, c, conv.SandboxID}.says("ls ~/.berth/turns", "")
}

// Redaction is off where a template says so, and covers the variables of a conversation whose names are those of secrets.
func TestRedactionFollowsTheTemplate(t *testing.T) {
	testkit.Proves(t, "E5")
	t.Parallel()
	p := start(t, withConfig(t, local(t), secretTemplates()))
	c := p.client(t)
	if _, err := c.Secrets.Set(t.Context(), "THE_KEY", "canary-that-may-be-seen"); err != nil {
		t.Fatal(err)
	}
	if k := askForKey(t, c, "open", ""); !strings.Contains(k.text, "begin canary-that-may-be-seen. ") {
		t.Errorf("with redact = false: %q", k.text)
	}
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "named", Env: map[string]string{"THE_KEY": "own-value-of-the-conversation"}})
	if err != nil {
		t.Fatal(err)
	}
	if k := askForKey(t, c, "", conv.ID); k.key != "own-value-of-the-conversation" || k.text != redactedText {
		t.Errorf("the conversation's own value: %q, printed %q", k.key, k.text)
	}
}

// The headers of a service have the tenant's secret, outside its sandbox, and follow it without a restart.
func TestHeadersOfAServiceHaveTheSecret(t *testing.T) {
	testkit.Proves(t, "E7")
	t.Parallel()
	var last atomic.Value
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { last.Store(r.Header.Get("X-Api-Key")) }))
	defer upstream.Close()
	env := withConfig(t, local(t), fmt.Sprintf(`
[templates.outside]
extends = "demo"
services = {"127.0.0.1:8788" = {url = %q, headers = {x-api-key = "$THE_KEY"}}}
`, upstream.URL))
	p := start(t, env)
	c := p.client(t)
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "outside"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "hello"}); problem(err).Code != api.CodeModelKeyMissing || !strings.Contains(problem(err).Detail, "THE_KEY is not set") {
		t.Errorf("without the secret: %v", err)
	}
	const call = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/8788 && printf "GET / HTTP/1.0\r\nHost: x\r\nX-Api-Key: mine\r\n\r\n" >&3 && head -c 12 <&3'; printenv THE_KEY || true`
	for _, value := range []string{canaries["tenant"], canaries["rotated"]} {
		if _, err := c.Secrets.Set(t.Context(), "THE_KEY", value); err != nil {
			t.Fatal(err)
		}
		prompted(t, c, conv.ID, "run "+call)
		if got := last.Load(); got != value {
			t.Errorf("the upstream got %q, not %q", got, value)
		}
		if text := lastMessage(t, c, conv.ID).Text(); !strings.Contains(text, "HTTP/1.0 200") || strings.Contains(text, value) {
			t.Errorf("the agent saw %q", text)
		}
	}
	if err := c.Secrets.Delete(t.Context(), "THE_KEY"); err != nil {
		t.Fatal(err)
	}
	conv, err = c.Conversations.Get(t.Context(), conv.ID)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error { // nothing asks for it by a turn
		if got := (box{t, c, conv.SandboxID}).sh(call).Stdout; !strings.HasPrefix(got, "HTTP/1.0 503") {
			return fmt.Errorf("after its deletion the service answers %q", got)
		}
		return nil
	})
	wantNoCanaries(t, env, "at the end")
	for _, name := range []string{"tenant", "rotated"} {
		if strings.Contains(p.logs.String(), canaries[name]) {
			t.Errorf("the log has the %s value", name)
		}
	}
}
