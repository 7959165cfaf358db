package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// memory is a store in memory, with a clock of its own and a hook before every write.
type memory struct {
	mu   sync.Mutex
	data map[string]kept
	n    int
	ago  time.Duration // how much later the store's clock is
	hook func(op, key string) error
}

type kept struct {
	data []byte
	tag  blob.Tag
	at   time.Time
}

func newMemory() *memory { return &memory{data: map[string]kept{}} }

func (m *memory) now() time.Time { return time.Now().Add(m.ago) }

func (m *memory) called(op, key string) error {
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op, key)
}

func (m *memory) Get(_ context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := m.called("get", key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.data[key]
	if !ok {
		return nil, blob.ErrNotFound
	}
	data := is.data[o.Offset:]
	if o.Length > 0 {
		data = data[:o.Length]
	}
	return &blob.Object{Body: io.NopCloser(bytes.NewReader(data)), Size: int64(len(is.data)), Tag: is.tag, At: is.at}, nil
}

func (m *memory) Put(_ context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	data, err := io.ReadAll(r)
	if err != nil || int64(len(data)) != size {
		return "", errors.Join(err, io.ErrUnexpectedEOF)
	}
	if err := m.called("put", key); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is, there := m.data[key]
	if o.IfAbsent && there || o.IfMatch != "" && o.IfMatch != is.tag {
		return "", blob.ErrPrecondition
	}
	m.n++
	m.data[key] = kept{data, blob.Tag(fmt.Sprint(m.n)), m.now()}
	return m.data[key].tag, nil
}

func (m *memory) Copy(_ context.Context, from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.data[from]
	if !ok {
		return blob.ErrNotFound
	}
	m.data[to] = is
	return nil
}

func (m *memory) List(_ context.Context, prefix string, _ blob.ListOptions) iter.Seq2[blob.Entry, error] {
	m.mu.Lock()
	all := maps.Clone(m.data)
	m.mu.Unlock()
	return func(yield func(blob.Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(key, prefix) && !yield(blob.Entry{Key: key, Size: int64(len(all[key].data)), Tag: all[key].tag, At: all[key].at}, nil) {
				return
			}
		}
	}
}

func (m *memory) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		if err := m.called("delete", key); err != nil {
			return err
		}
		m.mu.Lock()
		delete(m.data, key)
		m.mu.Unlock()
	}
	return nil
}

func (m *memory) String() string { return "memory" }

// change alters an object behind everybody's back.
func (m *memory) change(match string, alter func([]byte) []byte) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, is := range m.data {
		if strings.Contains(key, match) {
			is.data = alter(slices.Clone(is.data))
			m.data[key] = is
			n++
		}
	}
	return n
}
