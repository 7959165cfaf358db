package workspacesync

import (
	"context"
	"errors"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// CheckReachable returns an error if the store does not answer within seconds. Requests that need the store call it
// first, because the store's own timeouts and retries take minutes.
func (s *Syncer) CheckReachable(ctx context.Context) error {
	_, err := within(ctx, storeWait, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Ping(ctx) })
	return notReached("read", err)
}

// notReached adds to an error of a check what was asked for and that nothing else was done. It drops errors of a store
// that answers: the request itself reports them.
func notReached(step string, err error) error {
	if !Unavailable(err) {
		return nil
	}
	return fault.Errorf("check the object store", api.CodeBlobUnreachable, "%w (%s %s, before anything was sent or changed)", err, step, readyKey)
}

// checkWrites returns CheckReachable for transfers that write: a store may answer reads and hang on writes. It writes
// the object that Ping reads.
func checkWrites(s *Syncer) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := within(ctx, storeWait, func(ctx context.Context) (blob.Tag, error) {
			return s.o.Store.Put(ctx, readyKey, strings.NewReader(""), 0, blob.PutOptions{})
		})
		return notReached("write", err)
	}
}

// readyKey is the key of an empty object that shows whether the store answers. It need not exist.
const readyKey = ".berth-ready"

// Ping checks that the store answers reads.
func (s *Syncer) Ping(ctx context.Context) error {
	o, err := s.o.Store.Get(ctx, readyKey, blob.GetOptions{})
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = o.Body.Close()
	}
	return err
}

// Unavailable reports whether an error means that the object store does not answer.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	code := fault.CodeOf(err)
	return code == api.CodeBlobUnreachable || code == api.CodeTimeout || errors.Is(err, context.DeadlineExceeded)
}
