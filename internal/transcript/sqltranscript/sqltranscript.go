// Package sqltranscript keeps messages in the server's database.
package sqltranscript

import (
	"context"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

// Store keeps messages in a database.
type Store struct{ db *store.DB }

var _ transcript.Store = (*Store)(nil)

// New returns a store for a database. The caller closes the database.
func New(db *store.DB) *Store { return &Store{db} }

// String describes the store.
func (s *Store) String() string { return "the database" }

func (s *Store) in(tenant string) store.Scope { return s.db.In(store.TenantID(tenant)) }

// Put implements transcript.Store.
func (s *Store) Put(ctx context.Context, tenant string, m api.Message) error {
	body, err := transcript.Encode(m)
	if err != nil {
		return err
	}
	return s.in(tenant).Messages().Put(ctx, m.ConversationID, store.StoredMessage{ID: m.ID, Body: body})
}

// Get implements transcript.Store.
func (s *Store) Get(ctx context.Context, tenant, conversation, id string) (api.Message, error) {
	if !transcript.ValidID(conversation) || !transcript.ValidID(id) {
		return api.Message{}, transcript.Missing(id)
	}
	m, err := s.in(tenant).Messages().Get(ctx, conversation, id)
	if err != nil {
		return api.Message{}, err
	}
	return transcript.Decode(m.ID, m.Body)
}

// List implements transcript.Store.
func (s *Store) List(ctx context.Context, tenant, conversation string, page transcript.Page) (messages []api.Message, next string, err error) {
	limit, err := page.Check()
	if err != nil || !transcript.ValidID(conversation) {
		return nil, "", err
	}
	stored, more, err := s.in(tenant).Messages().List(ctx, conversation, store.MessagePage{
		After: page.After, Newest: page.Newest, Limit: limit, Bytes: transcript.PageBytes,
	})
	if err != nil {
		return nil, "", err
	}
	for _, m := range stored {
		message, err := transcript.Decode(m.ID, m.Body)
		if err != nil {
			return nil, "", err
		}
		messages = append(messages, message)
	}
	if more {
		next = stored[len(stored)-1].ID
	}
	return messages, next, nil
}

// Forget implements transcript.Store.
func (s *Store) Forget(ctx context.Context, tenant, conversation string) error {
	if !transcript.ValidID(conversation) {
		return nil
	}
	return s.in(tenant).Messages().Forget(ctx, conversation)
}

// Check implements transcript.Store.
func (s *Store) Check(ctx context.Context) error { return s.db.Ping(ctx) }
