package app_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// The server is killed between the acceptance of a prompt with files and the start of its agent. The next one has the
// files in the workspace, whole, before the agent starts, and the agent starts once.
func TestKilledServerLosesNoAttachment(t *testing.T) {
	testkit.Proves(t, "C2", "C4", "T5")
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "DATABASE_URL=" },
		"postgres": func(t *testing.T) string { return "DATABASE_URL=" + storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(local(t), database(t))
			for _, window := range []string{"accepted 1", "before-start 1", "file 2"} {
				killWithAttachments(t, env, window)
			}
		})
	}
}

func killWithAttachments(t *testing.T, env []string, window string) {
	t.Helper()
	large := make([]byte, 3<<20)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	p := start(t, append(env, killEnv+"="+window))
	once := p.client(t, client.WithAttempts(1))
	conv, _, err := once.Conversations.Create(t.Context(), api.CreateConversation{Template: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := once.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{
		Prompt:      "run cd attachments/*/ && sha256sum *; echo started >>../../starts",
		Attachments: []api.PromptFile{{Name: "large.bin", Data: large}, {Name: "small.txt", Data: []byte("small")}},
	})
	if err == nil {
		for _, err := range stream.Events() {
			if err != nil {
				break
			}
		}
	}
	_ = p.cmd.Wait()
	p = start(t, env)
	c := p.client(t)
	var turn api.Turn
	for found, err := range c.Conversations.Turns(t.Context(), conv.ID) {
		if err != nil {
			t.Fatal(err)
		}
		turn = found
	}
	if turn.ID == "" {
		t.Fatalf("%s: the prompt is lost", window)
	}
	whole := readTurn(t, c, conv.ID, turn.ID, 0)
	if end := lastEvent(t, whole); end.Status != api.TurnCompleted {
		t.Errorf("%s: the turn ended with %+v", window, end)
	}
	b := box{t, c, turn.SandboxID}
	want := fmt.Sprintf("%x  large.bin\n%x  small.txt\n", sha256.Sum256(large), sha256.Sum256([]byte("small")))
	b.says("cd attachments/"+turn.ID+" && sha256sum *", want)
	b.says("cat starts", "started\n")
	result := ""
	for _, e := range whole {
		if e.Type == api.EventToolResult {
			result += e.Text
		}
	}
	if result != want {
		t.Errorf("%s: the agent saw %q, want %q", window, result, want)
	}
	testkit.Eventually(t, time.Minute, func() error {
		for m, err := range c.Conversations.Messages(t.Context(), conv.ID) {
			if err != nil {
				return err
			}
			if m.Role == api.RoleUser && len(m.Attachments) == 2 && m.Attachments[0].Size == int64(len(large)) {
				return nil
			}
		}
		return fmt.Errorf("no message lists the attachments")
	})
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
}
