package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// storing are the problems of whatever needs the object store.
var storing = []api.Code{
	api.CodeInvalidID, api.CodeNotFound, api.CodeUnsupported, api.CodeUnknownVersion, api.CodeBadManifest, api.CodeSyncFailed,
	api.CodeBlobUnreachable, api.CodeBlobCredentials, api.CodeBlobDenied, api.CodeBlobNoBucket, api.CodeBlobRegion,
	api.CodeBlobClock, api.CodeBlobFull, api.CodeBlobDamaged, api.CodeBlobRefused,
}

// bringing are the problems of whatever reads or writes a workspace, too.
var bringing = append([]api.Code{
	api.CodeDeleted, api.CodeConflict, api.CodeNotRunning, api.CodeWrongHost, api.CodeUnknownDriver, api.CodeDriverUnreachable, api.CodeBusy, api.CodeStale,
	api.CodeWorkspaceTooLarge, api.CodeMassDelete, api.CodeSyncConflict, api.CodeDiskFull,
}, storing...)

func (a *Handler) addVersions(op opMaker) {
	list := op(http.MethodGet, "/{id}/versions", "list-versions", api.ScopeRead, "List the saved versions of a sandbox's workspace, newest first",
		append([]api.Code{api.CodeInvalidCursor}, storing...)...)
	list.Description = "Also of a deleted one, by its id, for as long as they are kept."
	serve(a, list, a.listVersions)
	serve(a, op(http.MethodGet, "/{id}/versions/{version}", "get-version", api.ScopeRead, "What a version changed against the one before it", storing...), a.getVersion)
	serve(a, op(http.MethodGet, "/{id}/versions/{version}/diff/{other}", "diff-versions", api.ScopeRead, "What differs between two versions", storing...), a.diffVersions)

	sync := op(http.MethodPost, "/{id}/sync", "sync-sandbox", api.ScopeWrite, "Save a sandbox's workspace now", bringing...)
	sync.Description = "A running or stopped sandbox stays as it is; one that is archived or terminated is brought back first. What others have saved to the same workspace comes here first. When nothing has changed there is no new version."
	sync.Timeout = unlimited
	serve(a, sync, a.syncSandbox)

	restore := op(http.MethodPost, "/{id}/restore", "restore-version", api.ScopeWrite, "Bring a version back", append(append([]api.Code{
		api.CodeTurnRunning, api.CodeInvalidName, api.CodeNameTaken, api.CodeQuotaExceeded, api.CodeUnknownTemplate, api.CodeUnknownProfile,
	}, reaching...), bringing...)...)
	restore.Description = "Into the sandbox itself: what is there is saved as a version first, and what was brought back becomes the newest one. Nothing that runs is stopped; while a command or a terminal is attached it is refused unless forced. " +
		"Or into a new sandbox of the same kind, also from a deleted one."
	restore.Timeout = unlimited
	restore.Status, restore.Also = http.StatusOK, map[int]string{http.StatusCreated: "A new sandbox has it"}
	serve(a, restore, a.restoreVersion)

	prune := op(http.MethodPost, "/{id}/prune", "prune-versions", api.ScopeWrite, "Remove old versions", bringing...)
	prune.Description = "The newest is always kept. What no version needs any more is deleted from the store a day later, by another prune."
	prune.Timeout = unlimited
	serve(a, prune, a.pruneVersions)
	verify := op(http.MethodPost, "/{id}/verify", "verify-versions", api.ScopeRead, "Read every version and prove that it can be restored", storing...)
	verify.Timeout = unlimited
	serve(a, verify, a.verifyVersions)
}

// kept finds a sandbox, by its id also a deleted one, and where its versions are.
func (a *Handler) kept(ctx context.Context, ref string) (sandbox.Sandbox, *workspace.Repo, error) {
	s, err := a.recordOf(ctx, ref)
	if err != nil {
		return s, nil, err
	}
	if !a.Keeper.Saves(s) {
		e := sandbox.Errorf("find versions", api.CodeUnsupported, "this server does not save the workspace of sandbox %s", s.ID)
		e.Hint = "Its template says sync = false, or the server was started with object_store none."
		return s, nil, e
	}
	return s, a.Keeper.Repo(s), nil
}

type listVersions struct {
	ByRef
	Paging
}

func (a *Handler) listVersions(ctx context.Context, in *listVersions) (*reply[api.List[api.Version]], error) {
	s, repo, err := a.kept(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	after, err := parseCursor("versions", in.Cursor)
	if err != nil || after.id != "" && after.id != s.ID {
		return nil, badCursor()
	}
	out := &reply[api.List[api.Version]]{api.List[api.Version]{Items: []api.Version{}}}
	for v, err := range repo.Versions(ctx) {
		switch {
		case err != nil:
			return nil, keeper.Told("list versions", err)
		case after.id != "" && v.Sequence >= after.at:
			continue
		case len(out.Body.Items) == in.Limit:
			last := out.Body.Items[in.Limit-1].Sequence
			out.Body.NextCursor = cursor{"versions", last, s.ID}.String()
			return out, nil
		}
		out.Body.Items = append(out.Body.Items, versionOut(v))
	}
	return out, nil
}

// ByVersion names a version of a sandbox's workspace.
type ByVersion struct {
	ByRef
	Version string `path:"version" maxLength:"100" doc:"Id of a version"`
}

func (a *Handler) getVersion(ctx context.Context, in *ByVersion) (*reply[api.VersionDetail], error) {
	_, repo, err := a.kept(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before, v, diff, err := keeper.Diff(ctx, repo, "", in.Version)
	if err != nil {
		return nil, keeper.Told("read version", err)
	}
	return &reply[api.VersionDetail]{api.VersionDetail{Version: versionOut(v), Changes: diffOut(before, v, diff)}}, nil
}

type diffVersions struct {
	ByVersion
	Other string `path:"other" maxLength:"100" doc:"Id of the version that is compared with it"`
}

func (a *Handler) diffVersions(ctx context.Context, in *diffVersions) (*reply[api.VersionDiff], error) {
	_, repo, err := a.kept(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	from, to, diff, err := keeper.Diff(ctx, repo, in.Version, in.Other)
	if err != nil {
		return nil, keeper.Told("compare versions", err)
	}
	return &reply[api.VersionDiff]{diffOut(from, to, diff)}, nil
}

// Bounds of the paths that a difference lists. The numbers are of all.
const (
	mostPaths     = 10_000
	mostPathBytes = 4 << 20
)

func diffOut(from, to workspace.Version, d *workspace.Difference) api.VersionDiff {
	out := api.VersionDiff{
		From: from.ID, To: to.ID, Added: d.Added, Modified: d.Modified, Deleted: d.Deleted, Renamed: d.Renamed, Bytes: d.Bytes,
		Paths: []api.PathChange{},
	}
	bytes := 0
	for _, c := range d.Changes {
		if bytes += len(c.Path) + len(c.From); len(out.Paths) == mostPaths || bytes > mostPathBytes {
			out.Truncated = true
			break
		}
		out.Paths = append(out.Paths, changeOut(c))
	}
	return out
}

func changeOut(c workspace.Change) api.PathChange {
	out := api.PathChange{Path: c.Path, Change: string(c.Kind), Kind: c.Is, From: c.From, Size: c.Size, Meta: c.Meta}
	switch c.Kind {
	case workspace.Deleted:
		out.Size = c.Was
	case workspace.Modified:
		out.Was = c.Was
	}
	return out
}

func versionOut(v workspace.Version) api.Version {
	return api.Version{ID: v.ID, Sequence: v.Sequence, Parent: v.Parent, CreatedAt: v.At, Files: v.Files, Bytes: v.Bytes, Note: v.Note}
}
