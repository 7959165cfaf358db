package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// Bounds of reads without a machine. A manifest is as large as the sandbox made it.
const (
	storeWait   = 4 * time.Second  // for an answer of the store: a request is answered within 5 s
	storeStall  = 30 * time.Second // for the next bytes of a large file
	mostViewed  = 200_000          // entries of a version that is read in place
	mostLoading = 2                // manifests that are decoded at once
	mostCached  = 2 * mostViewed   // entries of the manifests that are kept decoded
)

// Stored opens the newest version of a sandbox's workspace for reading, without an instance. It is for a sandbox
// that has none: the next instance begins with the same files.
func (k *Keeper) Stored(ctx context.Context, s sandbox.Sandbox) (files.FS, error) {
	plan := k.Plan(s)
	if plan.Off {
		return nil, sandbox.Errorf("read version", api.CodeNotRunning, "sandbox %s has no instance: it is %s, and its workspace is not one that is saved", s.ID, s.State)
	}
	if plan.Empty && s.Synced.Version == "" {
		return emptyVersion(k.Repo(s), s), nil // its next instance starts empty, whatever is stored
	}
	return within(ctx, storeWait, func(ctx context.Context) (files.FS, error) {
		repo := k.Repo(s)
		repo.Limits.Entries = mostViewed
		v, err := repo.Newest(ctx)
		switch {
		case sandbox.CodeOf(err) == api.CodeUnknownVersion && s.Synced.Version == "":
			return emptyVersion(repo, s), nil
		case sandbox.CodeOf(err) == api.CodeUnknownVersion:
			return nil, sandbox.Errorf("read version", api.CodeBadManifest, "version %s was saved, and the store has no version at all", s.Synced.Version)
		case err != nil:
			return nil, err
		}
		m, err := k.manifests.of(ctx, repo, v)
		if sandbox.CodeOf(err) == api.CodeWorkspaceTooLarge {
			e := sandbox.Errorf("read version", api.CodeWorkspaceTooLarge, "version %s has too many files to be read without an instance: %w", v.ID, err)
			e.Hint = "Start the sandbox; its files are read from its disk then."
			return nil, e
		}
		if err != nil {
			return nil, err
		}
		return &stored{repo.SnapshotOf(v, m)}, nil
	})
}

// emptyVersion is the workspace of a sandbox that never saved a file.
func emptyVersion(repo *workspace.Repo, s sandbox.Sandbox) files.FS {
	return &stored{repo.SnapshotOf(workspace.Version{At: s.CreatedAt}, &workspace.Manifest{At: s.CreatedAt})}
}

// within bounds a question to the store. A store that does not answer in time is unreachable.
func within[T any](ctx context.Context, most time.Duration, do func(context.Context) (T, error)) (T, error) {
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	out, err := do(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		err = sandbox.Errorf("read version", api.CodeBlobUnreachable, "the object store did not answer within %s: %w", most, err)
	}
	if err != nil {
		err = Told("read version", err)
	}
	return out, err
}

// manifests keeps decoded manifests: every request for a file needs one, and a version never changes.
type manifests struct {
	once    sync.Once
	loading chan struct{}

	mu      sync.Mutex
	kept    []cachedManifest // the latest used last
	entries int
}

type cachedManifest struct {
	key manifestKey
	m   *workspace.Manifest
}

type manifestKey struct{ prefix, version, digest string }

func (c *manifests) of(ctx context.Context, repo *workspace.Repo, v workspace.Version) (*workspace.Manifest, error) {
	key := manifestKey{repo.Prefix, v.ID, v.SHA256}
	if m := c.find(key); m != nil {
		return m, nil
	}
	c.once.Do(func() { c.loading = make(chan struct{}, mostLoading) })
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m := c.find(key); m != nil {
		return m, nil
	}
	m, err := repo.ManifestOf(ctx, v)
	if err == nil && v.SHA256 != "" { // a folder of objects without a state file may change
		c.keep(key, m)
	}
	return m, err
}

func (c *manifests) find(key manifestKey) *workspace.Manifest {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.kept {
		if k.key == key {
			c.kept = append(append(c.kept[:i:i], c.kept[i+1:]...), k)
			return k.m
		}
	}
	return nil
}

func (c *manifests) keep(key manifestKey, m *workspace.Manifest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.entries = append(c.kept, cachedManifest{key, m}), c.entries+len(m.Entries)+1
	for c.entries > mostCached || len(c.kept) > 64 {
		c.entries -= len(c.kept[0].m.Entries) + 1
		c.kept = c.kept[1:]
	}
}

// readOnly is the answer to every change of a stored version.
func readOnly(op string) error {
	e := sandbox.Errorf(op, api.CodeNotRunning, "a saved version cannot be changed")
	e.Hint = "Start the sandbox first."
	return e
}
