package versions

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

// localSync is one push, pull, sync or restore of a directory.
type localSync struct {
	*storeFlags
	wait       bool
	note       string
	newHistory bool

	repo *workspace.Repo
	tree *workspace.LocalDir
	base *workspace.Index // version that the directory was last in sync with; nil: unknown
}

// localSync adds the flags of the commands that change or save a directory.
func (a *app) localSync(cmd *cobra.Command) *localSync {
	h := &localSync{storeFlags: a.storeFlags(cmd)}
	cmd.Flags().BoolVar(&h.wait, "wait", false, "if the directory is being synced by another process, wait for it")
	a.QuietFlag(cmd, "the version")
	return h
}

// saveFlags adds the flags of the commands that save.
func (h *localSync) saveFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.note, "note", "", "`TEXT` to find the version by")
	cmd.Flags().BoolVar(&h.newHistory, "new", false, "begin a new history where nothing is saved yet, though the directory was saved elsewhere")
	ui.Offer(cmd, "note", []string{})
}

// begin opens the store and the directory.
func (h *localSync) begin(ctx context.Context, path string, open func(context.Context) (*workspace.Repo, error)) (err error) {
	delayGC()
	if err := workspace.CheckNotNested(h.address(), path); err != nil {
		return err
	}
	if h.repo, err = open(ctx); err != nil {
		return err
	}
	if h.tree, err = workspace.LockLocal(ctx, path, h.a.localOptions(h.wait)); err != nil {
		return err
	}
	if h.base, err = h.tree.Base(ctx, h.repo); err != nil {
		h.tree.Close()
	}
	return storeHint(err)
}

// work runs do, shows its progress and records the result in the directory.
func (h *localSync) work(ctx context.Context, what string, do func(*workspace.Repo) (*workspace.Result, error)) (*workspace.Result, error) {
	var far workspace.Progress
	repo := *h.repo
	repo.Progress = &far
	show := h.a.ProgressOf(what+" "+ui.Clean(h.tree.Path), progressOf(&far))
	res, err := do(&repo)
	show.Stop()
	if err != nil {
		if ctx.Err() != nil {
			h.a.Notef("berth: interrupted; the same command goes on where it stopped")
		}
		return nil, err
	}
	return res, h.tree.Record(ctx, h.repo, res)
}

// beginInto is begin for a command that creates a missing directory. It does not create it if the store has no
// versions.
func (h *localSync) beginInto(ctx context.Context, path string) error {
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

// localOptions returns the options of a sync at the command line.
func (a *app) localOptions(wait bool) workspace.LocalOptions {
	return workspace.LocalOptions{
		Wait: wait,
		Waiting: func(holder string) func() {
			spin := a.Spin("waiting for " + ui.Clean(holder))
			return spin.Stop
		},
		Warn: func(text string) { a.Warnf("%s", ui.Clean(text)) },
	}
}

// progressOf returns a function that reads the engine's progress.
func progressOf(far *workspace.Progress) ui.ProgressFunc {
	return func() (files, bytes, total, seen int64) {
		return far.Files.Load(), far.Bytes.Load(), far.AllBytes.Load(), far.Seen.Load()
	}
}

// initialGOGC is the GOGC value before the first garbage collection. Most syncs end before the heap has 32 MiB, so that
// they need no garbage collection.
const initialGOGC = 800

// delayGC delays the first garbage collection. After it, the usual GOGC value applies.
var delayGC = sync.OnceFunc(func() {
	usual := debug.SetGCPercent(initialGOGC)
	runtime.AddCleanup(new([16]byte), func(usual int) { debug.SetGCPercent(usual) }, usual)
})
