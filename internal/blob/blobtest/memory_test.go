package blobtest_test

import (
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

// memory is the smallest store, of which a test may bend single calls.
type memory struct {
	mu      sync.Mutex
	objects map[string]object
	writes  int

	check   func(key string) error
	holds   func(was object, there bool, o blob.PutOptions, size int64) bool
	tag     func(n int) blob.Tag
	read    func(r io.Reader, size int64) ([]byte, error)
	part    func(text []byte, o blob.GetOptions) ([]byte, error)
	missing error
	paste   func(from object) object
	name    func(key string) string
	list    func(entries []blob.Entry) []blob.Entry
	gone    func(keys []string) []string
	alive   func(ctx context.Context) error
	show    func(m *memory, key string, o object) // makes an object visible
	address string
}

type object struct {
	text []byte
	tag  blob.Tag
	at   time.Time
}

func newMemory() *memory {
	return &memory{
		objects: map[string]object{},
		check:   blob.CheckKey,
		holds: func(was object, there bool, o blob.PutOptions, _ int64) bool {
			return !(o.IfAbsent && there) && (o.IfMatch == "" || there && was.tag == o.IfMatch)
		},
		tag:     func(n int) blob.Tag { return blob.Tag(fmt.Sprintf(`"%032x"`, n)) },
		read:    readExactly,
		part:    partOf,
		missing: blob.ErrNotFound,
		paste:   func(from object) object { return from },
		name:    func(key string) string { return key },
		list:    func(entries []blob.Entry) []blob.Entry { return entries },
		gone:    func(keys []string) []string { return keys },
		alive:   func(ctx context.Context) error { return ctx.Err() },
		show:    func(m *memory, key string, o object) { m.objects[key] = o },
		address: "memory://",
	}
}

func readExactly(r io.Reader, size int64) ([]byte, error) {
	text := make([]byte, size)
	_, err := io.ReadFull(r, text)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

func partOf(text []byte, o blob.GetOptions) ([]byte, error) {
	size := int64(len(text))
	if o.Offset > 0 && o.Offset >= size {
		return nil, blob.ErrRange
	}
	end := size
	if o.Length > 0 {
		end = min(size, o.Offset+o.Length)
	}
	return text[o.Offset:end], nil
}

func (m *memory) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := errors.Join(m.check(key), m.alive(ctx)); err != nil {
		return nil, err
	}
	if o.Offset < 0 || o.Length < 0 {
		return nil, errors.New("a range that cannot be")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was, there := m.objects[m.name(key)]
	if !there && m.missing != nil {
		return nil, m.missing
	}
	if o.IfNoneMatch != "" && o.IfNoneMatch == was.tag {
		return nil, blob.ErrNotModified
	}
	text, err := m.part(was.text, o)
	if err != nil {
		return nil, err
	}
	return &blob.Object{Body: io.NopCloser(strings.NewReader(string(text))), Size: int64(len(was.text)), Tag: was.tag, At: was.at}, nil
}

func (m *memory) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if err := errors.Join(m.check(key), m.alive(ctx)); err != nil {
		return "", err
	}
	if size < 0 || o.IfAbsent && o.IfMatch != "" {
		return "", errors.New("a write that cannot be")
	}
	text, err := m.read(r, size)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was, there := m.objects[m.name(key)]
	if !m.holds(was, there, o, size) {
		return "", blob.ErrPrecondition
	}
	m.writes++
	tag := m.tag(m.writes)
	m.show(m, m.name(key), object{text, tag, time.Now()})
	return tag, nil
}

func (m *memory) Copy(_ context.Context, from, to string) error {
	if err := errors.Join(m.check(from), m.check(to)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was, there := m.objects[m.name(from)]
	if !there {
		return blob.ErrNotFound
	}
	m.objects[m.name(to)] = m.paste(was)
	return nil
}

func (m *memory) List(ctx context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	return func(yield func(blob.Entry, error) bool) {
		if err := m.alive(ctx); err != nil {
			yield(blob.Entry{}, err)
			return
		}
		for _, e := range m.list(m.entries(prefix, o)) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) entries(prefix string, o blob.ListOptions) (all []blob.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		was := m.objects[key]
		e := blob.Entry{Key: key, Size: int64(len(was.text)), Tag: was.tag, At: was.at}
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if cut := strings.IndexByte(key[len(prefix):], '/'); o.Folders && cut >= 0 {
			e = blob.Entry{Key: key[:len(prefix)+cut+1], Folder: true}
		}
		if e.Key > o.After && (len(all) == 0 || all[len(all)-1].Key != e.Key) {
			all = append(all, e)
		}
	}
	return all
}

func (m *memory) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		if err := m.check(key); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.gone(keys) {
		delete(m.objects, m.name(key))
	}
	return nil
}

func (m *memory) String() string { return m.address }
