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
	ago  time.Duration              // how much later the store's clock is
	hook func(op, key string) error // before a request
	// after is called when a request was done; its error is the answer.
	after func(op, key string) error
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

func (m *memory) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := errors.Join(ctx.Err(), m.called("get", key)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.data[key]
	if !ok {
		return nil, blob.ErrNotFound
	}
	if o.Offset > 0 && o.Offset >= int64(len(is.data)) {
		return nil, blob.ErrRange
	}
	data := is.data[o.Offset:]
	if o.Length > 0 {
		data = data[:min(o.Length, int64(len(data)))]
	}
	return &blob.Object{Body: io.NopCloser(bytes.NewReader(data)), Size: int64(len(is.data)), Tag: is.tag, At: is.at}, nil
}

func (m *memory) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	data, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil || int64(len(data)) != size {
		return "", errors.Join(err, io.ErrUnexpectedEOF)
	}
	if err := errors.Join(ctx.Err(), blob.CheckKey(key), m.called("put", key)); err != nil {
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
	if m.after != nil {
		if err := m.after("put", key); err != nil {
			return "", err
		}
	}
	return m.data[key].tag, nil
}

func (m *memory) Copy(ctx context.Context, from, to string) error {
	if err := errors.Join(ctx.Err(), blob.CheckKey(to), m.called("copy", to)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.data[from]
	if !ok {
		return blob.ErrNotFound
	}
	m.data[to] = is
	return nil
}

func (m *memory) List(_ context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	m.mu.Lock()
	all := maps.Clone(m.data)
	m.mu.Unlock()
	return func(yield func(blob.Entry, error) bool) {
		if err := m.called("list", prefix); err != nil {
			yield(blob.Entry{}, err)
			return
		}
		last := ""
		for _, key := range slices.Sorted(maps.Keys(all)) {
			rest, ok := strings.CutPrefix(key, prefix)
			if !ok || key <= o.After {
				continue
			}
			e := blob.Entry{Key: key, Size: int64(len(all[key].data)), Tag: all[key].tag, At: all[key].at}
			if name, _, below := strings.Cut(rest, "/"); o.Folders && below {
				e = blob.Entry{Key: prefix + name + "/", Folder: true}
			}
			if e.Key == last {
				continue
			}
			if last = e.Key; !yield(e, nil) {
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
	for key, is := range m.clone() {
		if strings.Contains(key, match) {
			is.data = alter(slices.Clone(is.data))
			m.mu.Lock()
			m.data[key] = is
			m.mu.Unlock()
			n++
		}
	}
	return n
}

// clone is what the store has now.
func (m *memory) clone() map[string]kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.data)
}

func (m *memory) replace(match, old, new string) {
	m.change(match, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(new)) })
}

func (m *memory) drop(match string) {
	maps.DeleteFunc(m.data, func(key string, _ kept) bool { return strings.HasPrefix(key, match) })
}

func (m *memory) keys() []string { return slices.Sorted(maps.Keys(m.data)) }

func (m *memory) key(prefix string) string {
	for _, key := range m.keys() {
		if strings.HasPrefix(key, prefix) {
			return key
		}
	}
	return ""
}
