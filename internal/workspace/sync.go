package workspace

import (
	"context"
	"errors"
	"fmt"
)

// syncTries is how often a sync meets another writer before it gives up.
const syncTries = 5

// Sync saves the tree, and brings here first what others have saved since base. A file changed on both
// sides is kept twice, and reported.
func (r *Repo) Sync(ctx context.Context, t Tree, base *Index, o PushOptions) (*Result, error) {
	var conflicts []string
	var moved Stats
	for try := 1; ; try++ {
		res, err := r.Push(ctx, t, base, o)
		if err == nil {
			res.Conflicts = conflicts
			res.Stats.FilesDownloaded, res.Stats.FilesDeleted = moved.FilesDownloaded, moved.FilesDeleted
			res.Stats.BytesTransferred += moved.BytesTransferred
			return res, nil
		}
		if !errors.Is(err, ErrMoved) || try == syncTries {
			return nil, err
		}
		pulled, err := r.Pull(ctx, t, base, PullOptions{Ignore: o.Ignore})
		if err != nil {
			return nil, fmt.Errorf("bring together what others saved: %w", err)
		}
		base, conflicts = pulled.Index, append(conflicts, pulled.Conflicts...)
		moved.FilesDownloaded += pulled.Stats.FilesDownloaded
		moved.FilesDeleted += pulled.Stats.FilesDeleted
		moved.BytesTransferred += pulled.Stats.BytesTransferred
	}
}

// Restore makes the tree exactly a version, the newest for an empty id, whatever was changed here. The
// index it returns is that of the newest version: the next push saves what was restored as a new one.
func (r *Repo) Restore(ctx context.Context, t Tree, base *Index, version string, o PullOptions) (*Result, error) {
	o.Version, o.Discard = version, true
	res, err := r.Pull(ctx, t, base, o)
	if err != nil {
		return nil, err
	}
	head, tag, err := r.readHead(ctx)
	if err != nil {
		return nil, err
	}
	if newest := head.newest(); newest.ID != res.Version {
		m, err := r.manifestOf(ctx, newest)
		if err != nil {
			return nil, err
		}
		res.Index = &Index{Manifest: *m, HeadTag: tag, Digest: newest.digest(), Stamps: make([]Stamp, len(m.Entries))}
	}
	return res, nil
}
