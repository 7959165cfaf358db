package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// Two machines share a database. A prompt to the machine without the sandbox is answered by the other machine. A request
// that needs the sandbox itself gets an error with the other machine's address. When the other machine is dead and
// forgotten, the sandbox starts on the remaining machine.
func TestMachinesThatShareADatabase(t *testing.T) {
	testkit.Proves(t, "X2", "C4")
	t.Parallel()
	f := fleet.New(t, fleet.Options{Replicas: 2, Apart: true, Local: talkingTemplate, LeaseTTL: 3 * time.Second, Env: []string{"BERTH_ADVERTISE_URL=http://other.example.com:7777"}})
	owner, other := f.Client(0, client.WithAttempts(always)), f.Client(1, client.WithAttempts(3))
	id := conversations(t, owner, 1)[0]
	prompt(t, owner, id, "first")
	testkit.Eventually(t, time.Minute, func() error {
		n := 0
		for h, err := range other.Hosts(t.Context()) {
			if err != nil {
				return err
			}
			if h.Alive {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d machines run", n)
		}
		return nil
	})
	for i := range 3 {
		prompt(t, other, id, fmt.Sprintf("through the other %d", i))
	}
	conv, err := other.Conversations.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Sandboxes.Start(t.Context(), conv.SandboxID)
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeWrongHost || !strings.Contains(p.Detail, "http://other.example.com:7777") {
		t.Errorf("told %v", err)
	}
	f.Kill(0)
	name := ""
	for h, err := range other.Hosts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if h.Sandboxes > 0 {
			name = h.Name
		}
	}
	if _, err := other.ForgetHost(t.Context(), name, false); codeOf(err) != api.CodeConflict {
		t.Errorf("forgot a machine that was seen lately: %v", err)
	}
	done, err := other.ForgetHost(t.Context(), name, true)
	if err != nil || len(done.Sandboxes) != 1 || done.Sandboxes[0].ID != conv.SandboxID || !done.Sandboxes[0].Lost {
		t.Fatalf("%+v, %v", done, err)
	}
	prompt(t, other, id, "here now")
	if s, err := other.Sandboxes.Start(t.Context(), conv.SandboxID); err != nil || s.Incarnation != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// prompt posts a prompt and waits for the end of its turn. The test fails if the turn is not completed.
func prompt(t *testing.T, c *client.Client, conversation, text string) {
	t.Helper()
	stream, err := c.Conversations.Prompt(t.Context(), conversation, api.Prompt{Prompt: text})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	for _, err := range stream.Events() {
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	turn, err := c.Conversations.Turn(t.Context(), conversation, stream.TurnID)
	if err != nil || turn.Status != "completed" {
		t.Errorf("%s: %+v, %v", text, turn, err)
	}
}
