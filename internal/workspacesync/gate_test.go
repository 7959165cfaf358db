package workspacesync_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/workspacesync"
)

// awayStore is a store that may not answer.
type awayStore struct {
	blob.Store
	away bool
}

func (s *awayStore) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if s.away {
		return "", fault.Errorf("put object", api.CodeBlobUnreachable, "nobody answers")
	}
	return s.Store.Put(ctx, key, r, size, o)
}

func TestNothingIsWrittenToAStoreThatWasNotTried(t *testing.T) {
	dir, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := &awayStore{Store: dir, away: true}
	gate := workspacesync.NewGate(store, nil)
	put := func() error {
		_, err := gate.Put(t.Context(), "docs/HEAD", strings.NewReader("v"), 1, blob.PutOptions{})
		return err
	}
	if err := gate.Prove(t.Context(), time.Minute); !workspacesync.Unavailable(err) {
		t.Fatalf("a store that is away: %v", err)
	}
	store.away = false // it is back, and was not tried yet
	if err := put(); fault.CodeOf(err) != api.CodeBlobUnreachable {
		t.Errorf("a write before the trial: %v", err)
	}
	if _, err := gate.Get(t.Context(), "docs/HEAD", blob.GetOptions{}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a read before the trial: %v", err)
	}
	if err := gate.Prove(t.Context(), time.Minute); err != nil || gate.Closed() != nil || !gate.Conditional() {
		t.Fatalf("%v, %v, conditional %v", err, gate.Closed(), gate.Conditional())
	}
	if err := put(); err != nil {
		t.Error(err)
	}
}
