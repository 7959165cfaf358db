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
	var conflicts []Conflict
	var moved Stats
	var state []byte // of the version that was brought here last
	for try := 1; ; try++ {
		res, err := r.Push(ctx, t, base, o)
		if err == nil {
			res.Conflicts = conflicts
			if res.State == nil {
				res.State = state
			}
			res.Stats.FilesDownloaded = moved.FilesDownloaded
			res.Stats.FilesDeleted += moved.FilesDeleted // the pulls' deletions here, beside those that the push saved
			res.Stats.BytesTransferred += moved.BytesTransferred
			return res, nil
		}
		if !errors.Is(err, ErrMoved) || try == syncTries {
			return nil, err
		}
		if own, err := r.Own(ctx, base, o.Writer); err != nil {
			return nil, err
		} else if own != nil {
			base = own
			continue
		}
		pulled, err := r.Pull(ctx, t, base, PullOptions{Ignore: o.Ignore, AllowMassDelete: o.AllowMassDelete})
		if err != nil {
			return nil, fmt.Errorf("bring together what others saved: %w", err)
		}
		base, conflicts = pulled.Index, append(conflicts, pulled.Conflicts...)
		if pulled.State != nil {
			state = pulled.State
		}
		moved.FilesDownloaded += pulled.Stats.FilesDownloaded
		moved.FilesDeleted += pulled.Stats.FilesDeleted
		moved.BytesTransferred += pulled.Stats.BytesTransferred
	}
}

// Own is the newest version behind base that the writer itself has saved, as a base; nil if there is none. A
// writer that was ended after it saved, and before it could remember that, has one.
func (r *Repo) Own(ctx context.Context, base *Index, writer string) (own *Index, err error) {
	if writer == "" {
		return nil, nil
	}
	for v, err := range r.Versions(ctx) {
		if err != nil {
			return nil, err
		}
		switch {
		case base != nil && (v.ID == base.ID || v.Sequence <= base.Sequence):
			return nil, nil
		case v.Writer == writer:
			return r.BaseOf(ctx, v.ID)
		}
	}
	return nil, nil
}

// Restore makes the tree exactly a version, the newest for an empty id, whatever was changed here. The
// index it returns is that of the newest version: the next push saves what was restored as a new one.
func (r *Repo) Restore(ctx context.Context, t Tree, base *Index, version string, o PullOptions) (*Result, error) {
	o.Version, o.Discard = version, true
	p, res, err := r.pull(ctx, t, base, o)
	if err != nil {
		return nil, err
	}
	newest := p.head.newest()
	if newest.ID == res.Version {
		return res, nil
	}
	m, err := r.manifestOf(ctx, newest)
	if err != nil {
		return nil, fmt.Errorf("version %s was restored; read what to save it on top of: %w", res.Version, err)
	}
	res.Index = &Index{Manifest: *m, HeadTag: p.headTag, Digest: newest.digest(), Stamps: res.Index.stampsFor(m), Scanned: res.Index.Scanned}
	return res, nil
}

// stampsFor is what is known of the files that another version has as well.
func (x *Index) stampsFor(m *Manifest) []Stamp {
	stamps := make([]Stamp, len(m.Entries))
	for i, at := 0, 0; i < len(m.Entries); i++ {
		e := &m.Entries[i]
		for at < len(x.Entries) && x.Entries[at].Path < e.Path {
			at++
		}
		if at < len(x.Entries) && x.Entries[at].Path == e.Path && x.Entries[at].same(e) {
			stamps[i] = x.Stamps[at]
		}
	}
	return stamps
}
