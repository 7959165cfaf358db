package workspace

import (
	"context"
	"errors"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
)

// Push saves the directory as a new version of repo. It returns CodeSyncConflict if the store has versions that are
// newer than base or that belong to another history.
func (t *LocalDir) Push(ctx context.Context, repo *Repo, base *Index, o PushOptions) (*Result, error) {
	res, err := repo.Push(ctx, t.Dir, base, o)
	if !errors.Is(err, ErrMoved) {
		return res, err
	}
	if t.related(ctx, repo, base) {
		return nil, refuse(api.CodeSyncConflict, "'berth workspace pull' brings them here, 'berth workspace sync' saves as well. Changes made here stay.",
			"the store has newer versions than %s, which %s was last the same as", base.ID, t.Path)
	}
	return nil, refuse(api.CodeSyncConflict, "'berth workspace sync' merges the two and deletes nothing; 'berth workspace restore' replaces the directory by a version.",
		"%s was never the same as a version in %s, which has some", t.Path, repo.Location())
}

// related reports whether base belongs to the history in the store. It returns true if the store cannot be read.
func (t *LocalDir) related(ctx context.Context, repo *Repo, base *Index) bool {
	if base == nil {
		return false
	}
	_, newest, err := repo.Version(ctx, "")
	return err != nil || newest.Lineage == base.Lineage
}

// ExpectHistory makes a save fail if the directory was saved before and the store of repo is empty: most often the
// store or the prefix is not the intended one. It returns the error that the save then wraps. It does not apply if
// base is a version of another tool (sequence 0), because such versions have no HEAD.
func (t *LocalDir) ExpectHistory(repo *Repo, base *Index) error {
	missing := refuse(api.CodeSyncConflict, "Check --store and --prefix. If this is a new place for it, --new begins a new history there.",
		"%s was saved before, but not in %s, where nothing is saved yet", t.Path, repo.Location())
	if t.elsewhere || base != nil && base.Sequence > 0 {
		repo.Store = &expecting{repo.Store, repo.Prefix + "HEAD", missing}
	}
	return missing
}

// expecting is a store in which the object key must exist. It checks reads that happen anyway, so it costs no extra
// request.
type expecting struct {
	blob.Store
	key     string
	missing error
}

// Get reads an object. It returns e.missing if the expected object does not exist.
func (e *expecting) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	got, err := e.Store.Get(ctx, key, o)
	if key == e.key && errors.Is(err, blob.ErrNotFound) {
		return nil, e.missing
	}
	return got, err
}

// Unwrap returns the wrapped store.
func (e *expecting) Unwrap() blob.Store { return e.Store }

// Location returns the store and the prefix for messages.
func (r *Repo) Location() string {
	if r.Prefix == "" {
		return r.Store.String()
	}
	return r.Store.String() + ", prefix " + r.Prefix
}
