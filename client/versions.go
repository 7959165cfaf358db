package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/berthdev/berth/api"
)

// syncTime is the time limit of a call that transfers a whole workspace.
const syncTime = time.Hour

// Purge also removes all versions of the sandbox, immediately and without a last save.
func Purge() EndOption { return func(q url.Values) { q.Set("purge", "true") } }

// Versions yields the saved versions of a sandbox's workspace, newest first. A deleted sandbox can be named by its
// id.
func (s Sandboxes) Versions(ctx context.Context, ref string) iter.Seq2[api.Version, error] {
	return all[api.Version](ctx, s.c, "list versions", nil, sandboxesPath, ref, "versions")
}

// Version gets a version and its changes since the previous version.
func (s Sandboxes) Version(ctx context.Context, ref, version string) (detail api.VersionDetail, err error) {
	_, err = s.c.do(ctx, call{op: "get version", method: http.MethodGet, path: path{sandboxesPath, ref, "versions", version}}, &detail)
	return detail, err
}

// Diff compares two versions.
func (s Sandboxes) Diff(ctx context.Context, ref, from, to string) (diff api.VersionDiff, err error) {
	_, err = s.c.do(ctx, call{op: "compare versions", method: http.MethodGet, path: path{sandboxesPath, ref, "versions", from, "diff", to}}, &diff)
	return diff, err
}

// Sync saves the sandbox's workspace now, whether it runs or is stopped.
func (s Sandboxes) Sync(ctx context.Context, ref string, want api.SyncWorkspace) (synced api.Synced, err error) {
	err = s.move(ctx, "sync sandbox", ref, "sync", want, &synced)
	return synced, err
}

// Restore restores a version into the sandbox itself, or into a new one.
func (s Sandboxes) Restore(ctx context.Context, ref string, want api.RestoreVersion) (restored api.Restored, err error) {
	err = s.move(ctx, "restore version", ref, "restore", want, &restored)
	return restored, err
}

// Prune removes all versions that want does not keep.
func (s Sandboxes) Prune(ctx context.Context, ref string, want api.PruneVersions) (pruned api.Pruned, err error) {
	err = s.move(ctx, "prune versions", ref, "prune", want, &pruned)
	return pruned, err
}

// Verify reads every version and checks that it can be restored.
func (s Sandboxes) Verify(ctx context.Context, ref string) (verified api.Verified, err error) {
	err = s.move(ctx, "verify versions", ref, "verify", nil, &verified)
	return verified, err
}

// move sends a POST whose time limit suits the transfer of a whole workspace.
func (s Sandboxes) move(ctx context.Context, op, ref, verb string, body, out any) error {
	ctx, cancel := s.c.lasting(ctx, syncTime.Seconds())
	defer cancel()
	_, err := s.c.do(ctx, call{op: op, method: http.MethodPost, path: path{sandboxesPath, ref, verb}, body: body}, out)
	return err
}
