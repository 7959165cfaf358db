package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/transcript"
)

// The events of prompts and sessions are logged once for what happened, each with its owner.
func TestEventsOfPrompts(t *testing.T) {
	testkit.Proves(t, "O4", "T9")
	w := newWorld(t, store.Options{DataDir: t.TempDir()})
	var log bytes.Buffer
	r := w.serve(func(o *chat.Options) { o.Log = telemetry.NewLogger(&log, "json", slog.LevelInfo, nil) })
	for _, prompt := range []string{"one", "again one", "always one", "fail"} {
		r.hear(r.ask(r.talk(), prompt), 0)
	}
	c := r.talk()
	r.hear(r.ask(c, "one"), 0)
	r.hear(r.ask(c, "nosession two"), 0)
	r.end()
	seen := map[string]int{}
	for line := range bytes.Lines(log.Bytes()) {
		var entry map[string]any
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		name, _ := entry["msg"].(string)
		seen[name]++
		if len(name) > 8 && name[:8] == "sandbox." && (entry[telemetry.FieldOwnerKind] != "conversation" || entry[telemetry.FieldOwnerID] == "" || entry[telemetry.FieldTenant] == "") {
			t.Errorf("%s has no owner: %s", name, line)
		}
	}
	for event, want := range map[string]int{
		telemetry.EventPromptOK: 4, telemetry.EventPromptRecoverableFail: 2, telemetry.EventPromptFatalFail: 2, telemetry.EventSessionReplaced: 1,
	} {
		if seen[event] != want {
			t.Errorf("%s was logged %d times, not %d", event, seen[event], want)
		}
	}
}

// unlisted is a message store whose lists cannot be read.
type unlisted struct{ transcript.Store }

func (unlisted) List(context.Context, string, string, transcript.Page) ([]api.Message, string, error) {
	return nil, "", fault.Errorf("list messages", api.CodeMessageStore, "there is no answer in time")
}

// An agent whose history cannot be read starts without it, and the stream says so.
func TestAgentStartsWithoutItsHistory(t *testing.T) {
	testkit.Proves(t, "C9")
	w := newWorld(t, store.Options{DataDir: t.TempDir()})
	r := w.serve(func(o *chat.Options) {
		o.Transcript = unlisted{o.Transcript}
	})
	events := r.hear(r.ask(r.talk(), "one"), 0)
	if last(events).Status != api.TurnCompleted || text(events) != "one" {
		t.Errorf("%+v", last(events))
	}
	if !slices.ContainsFunc(events, func(e api.TurnEvent) bool {
		return e.Type == api.EventStatus && e.Status == chat.StatusNoHistory && e.Code == api.CodeMessageStore
	}) {
		t.Errorf("nothing says so: %q", statuses(events))
	}
}
