package tool

import (
	"context"
	"sync"
)

// editLocks holds a lock for each edit in this process that is about to write a file. The key is the path and the tag
// of the file before the edit. Tags differ between sandboxes, so edits in different sandboxes do not wait for each
// other.
var editLocks = struct {
	sync.Mutex
	byKey map[string]*editLock
}{byKey: map[string]*editLock{}}

// editLock is the lock of one key.
type editLock struct {
	held  chan struct{} // has a token while the lock is held
	users int           // edits that hold the lock or wait for it
}

// lockEdit waits for the lock of a key.
func lockEdit(ctx context.Context, key string) (unlock func(), err error) {
	editLocks.Lock()
	l := editLocks.byKey[key]
	if l == nil {
		l = &editLock{held: make(chan struct{}, 1)}
		editLocks.byKey[key] = l
	}
	l.users++
	editLocks.Unlock()
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; l.leave(key) }, nil
	case <-ctx.Done():
		l.leave(key)
		return nil, ctx.Err()
	}
}

// leave removes the lock if no other edit uses it.
func (l *editLock) leave(key string) {
	editLocks.Lock()
	defer editLocks.Unlock()
	if l.users--; l.users == 0 {
		delete(editLocks.byKey, key)
	}
}
