package httpapi

import (
	"io"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// The Go client and the server agree on conversations, and a client whose connections are cut misses nothing.
func TestClientAndServerAgreeOnConversations(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	c, err := berth.New(w.server.URL, w.write)
	if err != nil {
		t.Fatal(err)
	}
	ctx, all := t.Context(), c.Conversations
	made, created, err := all.Create(ctx, api.CreateConversation{Title: "x"})
	if err != nil || !created {
		t.Fatalf("%+v, %v, %v", made, created, err)
	}
	if got, created, err := all.Ensure(ctx, made.ID); err != nil || !created || got.ConversationID != made.ID || got.Sandbox.State != "running" {
		t.Errorf("%+v, %v, %v", got, created, err)
	}
	s, err := all.Prompt(ctx, made.ID, api.Prompt{Prompt: "a wait:1 b wait:2 c"}, berth.WithRaw())
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for e, err := range s.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.EventText {
			words = append(words, e.Text)
			if e.Raw == nil {
				t.Errorf("%+v", e)
			}
		}
		switch e.Text {
		case "a", "b":
			w.server.CloseClientConnections()
			w.agents.open(map[string]string{"a": "1", "b": "2"}[e.Text])
		}
	}
	if got := strings.Join(words, " "); got != "a wait:1 b wait:2 c" {
		t.Errorf("%q", got)
	}
	again, err := all.Follow(ctx, made.ID, s.TurnID, s.After())
	if err != nil {
		t.Fatal(err)
	}
	if e, err := again.Next(); err != io.EOF {
		t.Errorf("behind the end: %+v, %v", e, err)
	}

	waiting, err := all.Prompt(ctx, made.ID, api.Prompt{Prompt: "wait:never"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := waiting.Next(); err != nil {
		t.Error(err)
	}
	if got, err := all.Cancel(ctx, made.ID, waiting.TurnID); err != nil || got.ID != waiting.TurnID {
		t.Errorf("%+v, %v", got, err)
	}
	for e, err := range waiting.Events() {
		if err != nil || e.Type == api.EventTurnFinished && e.Status != api.TurnCancelled {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if got, err := all.Turn(ctx, made.ID, waiting.TurnID); err != nil || got.Status != api.TurnCancelled {
		t.Errorf("%+v, %v", got, err)
	}
	count := 0
	for _, err := range all.Messages(ctx, made.ID) {
		if count++; err != nil {
			t.Error(err)
		}
	}
	if count != 4 {
		t.Errorf("%d messages", count)
	}
	download, err := all.Export(ctx, made.ID, "markdown")
	if err != nil {
		t.Fatal(err)
	}
	defer download.Close()
	if text, err := io.ReadAll(download); err != nil || !strings.Contains(string(text), "wait:never") {
		t.Errorf("%s, %v", text, err)
	}
	if got, err := c.Usage(ctx, berth.UsageFilter{By: []string{"day", "conversation"}}); err != nil || len(got.Items) != 1 || got.Items[0].ConversationID != made.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if err := all.Delete(ctx, made.ID, berth.EndSandbox(), berth.SkipSave()); err != nil {
		t.Error(err)
	}
}
