package workspace_test

import (
	"context"
	"io"
	"iter"
	"sync"

	"github.com/berthdev/berth/internal/blob"
)

// spoilt is a store some of whose requests fail: before they were done, or after.
type spoilt struct {
	blob.Store
	mu            sync.Mutex
	before, after func(op, key string) error
}

// set says which requests fail from now on.
func (s *spoilt) set(before, after func(op, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// spoil does a request, or not.
func (s *spoilt) spoil(op, key string, do func() error) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(op, key); err != nil {
			return err
		}
	}
	if err := do(); err != nil || after == nil {
		return err
	}
	return after(op, key)
}

func (s *spoilt) Get(ctx context.Context, key string, o blob.GetOptions) (got *blob.Object, err error) {
	err = s.spoil("get", key, func() (err error) {
		got, err = s.Store.Get(ctx, key, o)
		return err
	})
	if err != nil && got != nil {
		_ = got.Body.Close()
	}
	return got, err
}

func (s *spoilt) Put(ctx context.Context, key string, from io.Reader, size int64, o blob.PutOptions) (tag blob.Tag, err error) {
	err = s.spoil("put", key, func() (err error) {
		tag, err = s.Store.Put(ctx, key, from, size, o)
		return err
	})
	return tag, err
}

func (s *spoilt) Copy(ctx context.Context, from, to string) error {
	return s.spoil("copy", to, func() error { return s.Store.Copy(ctx, from, to) })
}

func (s *spoilt) List(ctx context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	if err := s.spoil("list", prefix, func() error { return nil }); err != nil {
		return func(yield func(blob.Entry, error) bool) { yield(blob.Entry{}, err) }
	}
	return s.Store.List(ctx, prefix, o)
}

func (s *spoilt) Delete(ctx context.Context, keys ...string) error {
	return s.spoil("delete", keys[0], func() error { return s.Store.Delete(ctx, keys...) })
}
