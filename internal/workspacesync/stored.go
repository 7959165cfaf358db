package workspacesync

import (
	"context"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// Limits of reads from the object store for sandboxes without an instance. Manifests can be large.
const (
	storeWait   = 4 * time.Second  // for a response of the store, so that a request is answered within 5 s
	storeStall  = 30 * time.Second // maximum time without new bytes of a large file
	mostViewed  = 200_000          // maximum number of entries of a version that is read
	mostLoading = 2                // number of manifests that are decoded concurrently
	mostCached  = 2 * mostViewed   // maximum number of entries of all cached manifests
)

// Live gives access to the files of a sandbox's instance. An engine.Handle implements it.
type Live interface {
	Files(ctx context.Context, root string) (files.FS, error)
}

// ReadFiles opens one root of a sandbox's files for reading, without starting the sandbox. If the sandbox has an
// instance, it reads the files of the instance, otherwise the newest version. A sandbox that is being created, or
// that failed before its first save, has no files yet.
func (s *Syncer) ReadFiles(ctx context.Context, live Live, sb sandbox.Sandbox, root string) (files.FS, error) {
	fs, err := live.Files(ctx, root)
	if ends := sb.State == sandbox.Terminating; sb.Instance != "" && (!ends || fault.CodeOf(err) != api.CodeNotRunning) {
		return fs, err
	}
	never := sb.Synced.Version == "" && sb.State != sandbox.Archived && sb.State != sandbox.Terminated
	if sb.Deleted() || never || !s.Saves(sb) {
		return fs, err
	}
	if root == files.HomeDir {
		e := fault.Errorf("open files", api.CodeNotRunning, "sandbox %s is %s, and versions have its workspace alone, not its home directory", sb.ID, sb.State)
		e.Hint = "Read the workspace (source=working_dir). A home directory ends with its instance: the next one begins with a new one."
		return nil, e
	}
	return s.Stored(ctx, sb)
}

// Stored opens the newest version of a sandbox's workspace for reading. It is for a sandbox without an instance,
// whose next instance begins with the same files.
func (s *Syncer) Stored(ctx context.Context, sb sandbox.Sandbox) (files.FS, error) {
	plan := s.o.Plan(sb)
	if plan.Off {
		return nil, fault.Errorf("read version", api.CodeNotRunning, "sandbox %s has no instance: it is %s, and its workspace is not one that is saved", sb.ID, sb.State)
	}
	if plan.Empty && sb.Synced.Version == "" {
		return emptyVersion(s.Repo(sb), sb), nil // the next instance starts empty, whatever the store contains
	}
	return within(ctx, storeWait, func(ctx context.Context) (files.FS, error) {
		repo := s.Repo(sb)
		repo.Limits.Entries = mostViewed
		v, err := repo.Newest(ctx)
		switch {
		case fault.CodeOf(err) == api.CodeUnknownVersion && sb.Synced.Version == "":
			return emptyVersion(repo, sb), nil
		case fault.CodeOf(err) == api.CodeUnknownVersion:
			return nil, fault.Errorf("read version", api.CodeBadManifest, "version %s was saved, and the store has no version at all", sb.Synced.Version)
		case err != nil:
			return nil, err
		}
		m, err := s.manifests.of(ctx, repo, v)
		if fault.CodeOf(err) == api.CodeWorkspaceTooLarge {
			e := fault.Errorf("read version", api.CodeWorkspaceTooLarge, "version %s has too many files to be read without an instance: %w", v.ID, err)
			e.Hint = "Start the sandbox; its files are read from its disk then."
			return nil, e
		}
		if err != nil {
			return nil, err
		}
		return &storedFS{repo.SnapshotOf(v, m)}, nil
	})
}

// emptyVersion returns the empty workspace of a sandbox that never saved a file.
func emptyVersion(repo *workspace.Repo, sb sandbox.Sandbox) files.FS {
	return &storedFS{repo.SnapshotOf(workspace.Version{At: sb.CreatedAt}, &workspace.Manifest{At: sb.CreatedAt})}
}

// within calls do with a time limit. If do does not end in time, the result is an error with CodeBlobUnreachable. Its
// text is for tenants and does not have the store's address, which /readyz and the log of the server have.
func within[T any](ctx context.Context, most time.Duration, do func(context.Context) (T, error)) (T, error) {
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	out, err := do(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		err = fault.Errorf("read version", api.CodeBlobUnreachable, "the object store did not answer within %s", most)
	}
	if err != nil {
		err = WrapError("read version", err)
	}
	return out, err
}

// manifests caches decoded manifests, because each request for a file needs one. A version never changes.
type manifests struct {
	once    sync.Once
	loading chan struct{}

	mu      sync.Mutex
	kept    []cachedManifest // least recently used first
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
	if err == nil && v.SHA256 != "" { // without a state file, the version of another tool may still change
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

// readOnly returns the error for a change of a stored version.
func readOnly(op string) error {
	e := fault.Errorf(op, api.CodeNotRunning, "a saved version cannot be changed")
	e.Hint = "Start the sandbox first."
	return e
}
