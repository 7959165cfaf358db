package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

// A sandbox that is frozen while a turn begins does not hold up what ends the turn.
func TestForcedEndOfAFrozenTurn(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	conv, _, err := a.Conversations.Create(t.Context(), api.CreateConversation{})
	if err != nil {
		t.Fatal(err)
	}
	verbs := []string{"archive", "stop", "restart", "terminate"}
	for i := range 20 {
		box, _, err := a.Conversations.Ensure(t.Context(), conv.ID)
		if err != nil {
			t.Fatal(err)
		}
		verb, asked := verbs[i%len(verbs)], make(chan error, 1)
		go func() {
			turn, err := a.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "run sleep 300"})
			if err == nil {
				err = turn.Close()
			}
			asked <- err
		}()
		<-time.After(time.Duration(i) * 1500 * time.Microsecond) // the moment of the attack
		frozen, _ := a.fetch(http.MethodPost, "/api/v1/sandboxes/"+box.SandboxID+"/freeze", nil)
		if err := <-asked; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		status, text := a.fetch(http.MethodPost, "/api/v1/sandboxes/"+box.SandboxID+"/"+verb+"?force=true", nil)
		if status != http.StatusOK && !strings.Contains(text, string(api.CodeBusy)) {
			t.Fatalf("%d: freeze %d, then %s: %d after %v: %s", i, frozen, verb, status, time.Since(began), text)
		}
		t.Logf("%d: freeze %d, then %s %d after %v", i, frozen, verb, status, time.Since(began))
	}
}
