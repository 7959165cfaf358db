package transcripttest_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/transcript"
)

// memory is a store that can be bent.
type memory struct {
	mu   sync.Mutex
	kept map[string]map[string]string // messages by conversation and id

	encode func(api.Message) (string, error)
	place  func(tenant, conversation string) string
	put    func(there bool) bool // may it be stored
	order  func(ids []string)
	behind func(id, after string, newest bool) bool
	page   func(transcript.Page) (int, error)
	bytes  int
	forget func(map[string]string)
	alive  func(context.Context) error
	broken error // what Check says
}

func newMemory() *memory {
	return &memory{
		kept: map[string]map[string]string{}, encode: transcript.Encode, bytes: transcript.PageBytes,
		place:  func(tenant, conversation string) string { return tenant + "\x00" + conversation },
		put:    func(there bool) bool { return !there },
		order:  slices.Sort[[]string],
		behind: func(id, after string, newest bool) bool { return after == "" || newest != (id > after) && id != after },
		page:   transcript.Page.Check,
		forget: func(m map[string]string) { clear(m) },
		alive:  context.Context.Err,
	}
}

// enter locks the store for one call.
func (m *memory) enter(ctx context.Context) error {
	if err := m.alive(ctx); err != nil {
		return fault.Errorf("use memory", api.CodeTimeout, "%w", err)
	}
	m.mu.Lock()
	return nil
}

func (m *memory) Put(ctx context.Context, tenant string, message api.Message) error {
	body, err := m.encode(message)
	if err != nil {
		return err
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	place := m.place(tenant, message.ConversationID)
	if m.kept[place] == nil {
		m.kept[place] = map[string]string{}
	}
	if _, there := m.kept[place][message.ID]; m.put(there) {
		m.kept[place][message.ID] = body
	}
	return nil
}

func (m *memory) Get(ctx context.Context, tenant, conversation, id string) (api.Message, error) {
	if err := m.enter(ctx); err != nil {
		return api.Message{}, err
	}
	defer m.mu.Unlock()
	body, there := m.kept[m.place(tenant, conversation)][id]
	if !there {
		return api.Message{}, transcript.Missing(id)
	}
	return transcript.Decode(id, body)
}

func (m *memory) List(ctx context.Context, tenant, conversation string, page transcript.Page) (messages []api.Message, next string, err error) {
	limit, err := m.page(page)
	if err != nil {
		return nil, "", err
	}
	if err := m.enter(ctx); err != nil {
		return nil, "", err
	}
	defer m.mu.Unlock()
	size := 0
	for _, id := range m.ids(m.place(tenant, conversation), page) {
		if len(messages) == limit || size > m.bytes {
			return messages, messages[len(messages)-1].ID, nil
		}
		body := m.kept[m.place(tenant, conversation)][id]
		message, err := transcript.Decode(id, body)
		if err != nil {
			return nil, "", err
		}
		messages, size = append(messages, message), size+len(body)
	}
	return messages, "", nil
}

// ids are those of a conversation behind a page's beginning, in its order.
func (m *memory) ids(place string, page transcript.Page) (ids []string) {
	for id := range m.kept[place] {
		if m.behind(id, page.After, page.Newest) {
			ids = append(ids, id)
		}
	}
	m.order(ids)
	if page.Newest {
		slices.Reverse(ids)
	}
	return ids
}

func (m *memory) Forget(ctx context.Context, tenant, conversation string) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.forget(m.kept[m.place(tenant, conversation)])
	return nil
}

func (m *memory) Check(context.Context) error { return m.broken }

// without is a body that lost something on the way.
func without(what string) func(api.Message) (string, error) {
	return func(m api.Message) (string, error) {
		body, err := transcript.Encode(m)
		return strings.ReplaceAll(body, what, ""), err
	}
}
