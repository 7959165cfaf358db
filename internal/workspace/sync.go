package workspace

import (
	"context"
	"errors"
	"fmt"
)

// syncTries is the number of attempts of an operation that fails because other writers changed HEAD.
const syncTries = 5

// Sync merges versions that others saved since base, and then saves the tree. If a file was changed on both sides,
// both copies are kept and reported as a conflict.
func (r *Repo) Sync(ctx context.Context, t Tree, base *Index, o PushOptions) (*Result, error) {
	var conflicts []Conflict
	var moved Stats
	var state []byte // manifest of the last pulled version
	for try := 1; ; try++ {
		res, err := r.Push(ctx, t, base, o)
		if err == nil {
			res.Conflicts = conflicts
			if res.State == nil {
				res.State = state
			}
			res.Stats.FilesDownloaded = moved.FilesDownloaded
			res.Stats.FilesDeleted += moved.FilesDeleted // add the files that the pulls deleted
			res.Stats.BytesTransferred += moved.BytesTransferred
			return res, nil
		}
		if !errors.Is(err, ErrMoved) || try == syncTries {
			return nil, err
		}
		if own, err := r.OwnVersion(ctx, base, o.Writer); err != nil {
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

// OwnVersion returns the newest version after base that the writer saved, as an index, or nil if there is none.
// Such a version exists if the writer was killed after its commit and before it saved its index.
func (r *Repo) OwnVersion(ctx context.Context, base *Index, writer string) (own *Index, err error) {
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

// Restore makes the tree equal to a version and discards local changes. An empty id means the newest version. It
// returns the index of the newest version, so that the next push saves the restored files as a new version.
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

// stampsFor returns stamps for the entries of m. An entry that is equal in x has the stamp of x; others have zero
// stamps.
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
