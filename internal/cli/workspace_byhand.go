package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

// byHand is one push, pull, sync or restore of a directory.
type byHand struct {
	*depot
	wait bool
	note string
	anew bool

	repo *workspace.Repo
	tree *worktree
	base *workspace.Index // what the directory was last the same as; nil: not known
}

// byHand adds the flags of every command that changes a directory or saves it.
func (f *frame) byHand(cmd *cobra.Command) *byHand {
	h := &byHand{depot: f.depot(cmd)}
	cmd.Flags().BoolVar(&h.wait, "wait", false, "if the directory is being synced by another process, wait for it")
	f.quietly(cmd, "the version")
	return h
}

// saveFlags adds those of the commands that save.
func (h *byHand) saveFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.note, "note", "", "`TEXT` to find the version by")
	cmd.Flags().BoolVar(&h.anew, "new", false, "begin a new history where nothing is saved yet, though the directory was saved elsewhere")
	offer(cmd, "note", []string{})
}

// begin opens the store and the directory.
func (h *byHand) begin(ctx context.Context, path string, open func(context.Context) (*workspace.Repo, error)) (err error) {
	relax()
	if err := apart(h.address(), path); err != nil {
		return err
	}
	if h.repo, err = open(ctx); err != nil {
		return err
	}
	if h.tree, err = h.f.lockedTree(ctx, path, h.wait); err != nil {
		return err
	}
	if h.base, err = h.tree.base(ctx, h.repo); err != nil {
		h.tree.close()
	}
	return err
}

// work does it with its progress shown, and writes down what came of it.
func (h *byHand) work(ctx context.Context, what string, do func(*workspace.Repo) (*workspace.Result, error)) (*workspace.Result, error) {
	var far workspace.Progress
	repo := *h.repo
	repo.Progress = &far
	show := h.f.progressOf(what+" "+clean(h.tree.path), farnessOf(&far))
	res, err := do(&repo)
	show.stop()
	if err != nil {
		if ctx.Err() != nil {
			h.f.notef("berth: interrupted; the same command goes on where it stopped")
		}
		return nil, err
	}
	return res, h.tree.keep(ctx, h.repo, res)
}

// beginInto is begin for a directory that may have to be made; not for nothing, though.
func (h *byHand) beginInto(ctx context.Context, path string) error {
	return h.begin(ctx, path, func(ctx context.Context) (*workspace.Repo, error) {
		repo, err := h.open(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return repo, nil
		}
		switch empty, err := repo.Empty(ctx); {
		case err != nil:
			return nil, storeHint(err)
		case empty:
			return nil, nothingSaved(repo)
		}
		return repo, os.MkdirAll(path, 0o777)
	})
}

// farnessOf reads how far the engine is.
func farnessOf(far *workspace.Progress) farness {
	return func() (files, bytes, total, seen int64) {
		return far.Files.Load(), far.Bytes.Load(), far.AllBytes.Load(), far.Seen.Load()
	}
}
