package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
)

func TestStoredMessages(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		for i := range 5 {
			m := store.StoredMessage{ID: fmt.Sprint("m", i), Body: strings.Repeat("é", 50)}
			noError(t, s.Messages().Put(t.Context(), "c", m))
			m.Body = "another"
			noError(t, s.Messages().Put(t.Context(), "c", m))
		}
		noError(t, db.In("globex").Messages().Put(t.Context(), "c", store.StoredMessage{ID: "m1", Body: "theirs"}))
		noError(t, s.Messages().Put(t.Context(), "d", store.StoredMessage{ID: "m1", Body: "elsewhere"}))

		for _, c := range []struct {
			page store.MessagePage
			want string
			more bool
		}{
			{store.MessagePage{Bytes: 1000}, "m0 m1 m2 m3 m4", false},
			{store.MessagePage{Bytes: 1000, Newest: true}, "m4 m3 m2 m1 m0", false},
			{store.MessagePage{Bytes: 1000, Limit: 5}, "m0 m1 m2 m3 m4", false},
			{store.MessagePage{Bytes: 1000, Limit: 2}, "m0 m1", true},
			{store.MessagePage{Bytes: 1000, Limit: 2, After: "m1"}, "m2 m3", true},
			{store.MessagePage{Bytes: 1000, Limit: 2, After: "m2"}, "m3 m4", false},
			{store.MessagePage{Bytes: 1000, Limit: 2, After: "m4", Newest: true}, "m3 m2", true},
			{store.MessagePage{Bytes: 1000, After: "m9"}, "", false},
			{store.MessagePage{Bytes: 0}, "m0", true},
			{store.MessagePage{Bytes: 100}, "m0 m1", true},
			{store.MessagePage{Bytes: 399}, "m0 m1 m2 m3", true},
			{store.MessagePage{Bytes: 400}, "m0 m1 m2 m3 m4", false},
			{store.MessagePage{Bytes: 99, Newest: true, After: "m3"}, "m2", true},
		} {
			messages, more, err := s.Messages().List(t.Context(), "c", c.page)
			noError(t, err)
			var got []string
			for _, m := range messages {
				got = append(got, m.ID)
			}
			if strings.Join(got, " ") != c.want || more != c.more {
				t.Errorf("%+v: %q, more %v", c.page, got, more)
			}
		}
		m, err := s.Messages().Get(t.Context(), "c", "m1")
		if err != nil || m.Body != strings.Repeat("é", 50) {
			t.Errorf("%+v, %v", m, err)
		}
		noError(t, s.Messages().Forget(t.Context(), "c"))
		noError(t, s.Messages().Forget(t.Context(), "c"))
		_, err = s.Messages().Get(t.Context(), "c", "m1")
		wantCode(t, err, api.CodeNotFound)
		for tenant, conversation := range map[store.TenantID]string{"globex": "c", acme: "d"} {
			if _, err := db.In(tenant).Messages().Get(t.Context(), conversation, "m1"); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestMessagesThatAreCountedAreText is about what agents write: PostgreSQL refuses bytes that are no text, and
// a message that is refused would be delivered for ever.
func TestMessagesThatAreCountedAreText(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		c, _, err := s.CreateConversation(t.Context(), store.Conversation{})
		noError(t, err)
		m := api.Message{ID: store.NewID(), ConversationID: c.ID, Content: []api.Block{
			{Type: api.BlockToolUse, Input: json.RawMessage("{\"a\":\"\xff\"}")}, {Type: api.BlockText, Text: "\x00\u2028\xff"},
		}}
		out := store.Message{ID: m.ID, Kind: "message"}
		noError(t, s.Outgoing().Enqueue(t.Context(), out))
		_, err = s.UsageCounts().CountMessage(t.Context(), out, m, true)
		noError(t, err)
		got, err := s.Messages().Get(t.Context(), c.ID, m.ID)
		if err != nil || !strings.Contains(got.Body, `{"a":"`+"\uFFFD"+`"}`) {
			t.Errorf("%+v, %v", got, err)
		}
		m.ID, m.Content[0].Input = store.NewID(), json.RawMessage("{")
		out.ID = m.ID
		noError(t, s.Outgoing().Enqueue(t.Context(), out))
		if _, err := s.UsageCounts().CountMessage(t.Context(), out, m, true); err == nil {
			t.Error("what cannot be written down was counted")
		}
	})
}
