package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspacePush() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push DIR",
		Short: "Save a directory as a new version",
		Long: `Save a directory as a new version. Only what changed since the last one is read and sent; if nothing
has changed there is no new version.

It is refused when the store has versions that the directory was never the same as: 'pull' brings them
here first, and 'sync' does both. A version is there whole or not at all, whatever happens meanwhile.`,
		Example: `  berth workspace push --store /backup/versions ~/project
  berth workspace push --store s3://bucket --prefix project --note "before the move" .
  berth workspace push --store /backup/versions -q .`,
		Args:              takes(1, 1, "one directory"),
		ValidArgsFunction: folders,
	}
	h := f.byHand(cmd)
	h.saveFlags(cmd)
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		return h.save(ctx, args[0], "pushing", func(repo *workspace.Repo, o workspace.PushOptions) (*workspace.Result, error) {
			res, err := repo.Push(ctx, h.tree.dir, h.base, o)
			return res, h.explainMoved(ctx, err)
		})
	})
	return cmd
}

// save saves a directory the one way or the other.
func (h *byHand) save(ctx context.Context, path, what string, do func(*workspace.Repo, workspace.PushOptions) (*workspace.Result, error)) error {
	if err := h.begin(ctx, path, h.openToWrite); err != nil {
		return err
	}
	defer h.tree.close()
	elsewhere := refusal(api.CodeSyncConflict, "Look at --store and --prefix. If this is a new place for it, --new begins a new history there.",
		"%s was saved before, but not in %s, where nothing is saved yet", path, where(h.repo))
	if !h.anew {
		h.expectHistory(elsewhere)
	}
	began := h.f.now()
	res, err := h.work(ctx, what, func(repo *workspace.Repo) (*workspace.Result, error) {
		return do(repo, workspace.PushOptions{Ignore: h.tree.ignore, Note: h.note})
	})
	switch {
	case errors.Is(err, elsewhere):
		return elsewhere
	case err != nil:
		return storeHint(err)
	}
	return h.f.tellSync(res, saved(res), h.f.now().Sub(began))
}

// expectHistory makes a push fail where the directory was saved before, and the store says that nothing
// ever was: most often the store or the prefix is not the one that was meant. Versions of other tools,
// which are not counted, have no HEAD.
func (h *byHand) expectHistory(missing error) {
	if h.tree.elsewhere || h.base != nil && h.base.Sequence > 0 {
		h.repo.Store = &expecting{h.repo.Store, h.repo.Prefix + "HEAD", missing}
	}
}

// expecting is a store in which an object must be. It takes no request of its own to find out.
type expecting struct {
	blob.Store
	key     string
	missing error
}

// Get reads an object, or says what it means that it is not there.
func (e *expecting) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	got, err := e.Store.Get(ctx, key, o)
	if key == e.key && errors.Is(err, blob.ErrNotFound) {
		return nil, e.missing
	}
	return got, err
}

// Unwrap is the store.
func (e *expecting) Unwrap() blob.Store { return e.Store }

// explainMoved says what stands in the way of a push.
func (h *byHand) explainMoved(ctx context.Context, err error) error {
	if !errors.Is(err, workspace.ErrMoved) {
		return err
	}
	if h.related(ctx) {
		return refusal(api.CodeSyncConflict, "'berth workspace pull' brings them here, 'berth workspace sync' saves as well. What was changed here stays.",
			"the store has newer versions than %s, which %s was last the same as", h.base.ID, h.tree.path)
	}
	return refusal(api.CodeSyncConflict, "'berth workspace sync' merges the two and deletes nothing; 'berth workspace restore' makes the directory what is saved.",
		"%s was never the same as a version in %s, which has some", h.tree.path, where(h.repo))
}

// related reports whether the directory was the same as a version of the history that the store has now.
func (h *byHand) related(ctx context.Context) bool {
	if h.base == nil {
		return false
	}
	_, newest, err := h.repo.Version(ctx, "")
	return err != nil || newest.Lineage == h.base.Lineage
}
