package sandboxes

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// storeProblems are the problems of routes that need the object store.
var storeProblems = []api.Code{
	api.CodeInvalidID, api.CodeNotFound, api.CodeUnsupported, api.CodeUnknownVersion, api.CodeBadManifest, api.CodeSyncFailed,
	api.CodeBlobUnreachable, api.CodeBlobCredentials, api.CodeBlobDenied, api.CodeBlobNoBucket, api.CodeBlobRegion,
	api.CodeBlobClock, api.CodeBlobFull, api.CodeBlobDamaged, api.CodeBlobRefused,
}

// workspaceProblems are the problems of routes that also read or write a workspace.
var workspaceProblems = append([]api.Code{
	api.CodeDeleted, api.CodeConflict, api.CodeNotRunning, api.CodeWrongHost, api.CodeUnknownDriver, api.CodeDriverUnreachable, api.CodeBusy, api.CodeStale,
	api.CodeWorkspaceTooLarge, api.CodeMassDelete, api.CodeSyncConflict, api.CodeDiskFull,
}, storeProblems...)

func (a *handlers) addVersions(op access.OperationFunc) {
	list := op(http.MethodGet, "/{id}/versions", "list-versions", api.ScopeRead, "List a sandbox's versions, newest first",
		append([]api.Code{api.CodeInvalidCursor}, storeProblems...)...)
	list.Description = "Also for a deleted sandbox, by its id, while its versions are kept."
	rest.Serve(a.Spec, list, a.listVersions)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/versions/{version}", "get-version", api.ScopeRead, "Get a version and its changes", storeProblems...), a.getVersion)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/versions/{version}/diff/{other}", "diff-versions", api.ScopeRead, "Compare two versions", storeProblems...), a.diffVersions)

	sync := op(http.MethodPost, "/{id}/sync", "sync-sandbox", api.ScopeWrite, "Save a sandbox's workspace", workspaceProblems...)
	sync.Description = "A running or stopped sandbox keeps its state; an archived or terminated one is started first. Versions that others saved to the same workspace are merged first. No version is created if nothing changed."
	sync.Timeout = exchange.Unlimited
	rest.Serve(a.Spec, sync, a.syncSandbox)

	restore := op(http.MethodPost, "/{id}/restore", "restore-version", api.ScopeWrite, "Restore a version", append(append([]api.Code{
		api.CodeTurnRunning, api.CodeInvalidName, api.CodeNameTaken, api.CodeQuotaExceeded, api.CodeUnknownTemplate, api.CodeUnknownProfile,
	}, access.ReachProblems...), workspaceProblems...)...)
	restore.Description = "Restores into the sandbox itself: the current files are saved as a version first, and the restored files become the newest version. Running processes are not stopped; while a command or a terminal is attached, the request is refused unless forced. " +
		"With into, restores into a new sandbox of the same kind; this works for a deleted sandbox too."
	restore.Timeout = exchange.Unlimited
	restore.Status, restore.Also = http.StatusOK, map[int]string{http.StatusCreated: "The version was restored into a new sandbox"}
	rest.Serve(a.Spec, restore, a.restoreVersion)

	prune := op(http.MethodPost, "/{id}/prune", "prune-versions", api.ScopeWrite, "Prune old versions", workspaceProblems...)
	prune.Description = "The newest version is always kept. Objects that no version needs are deleted from the store by a prune at least a day later."
	prune.Timeout = exchange.Unlimited
	rest.Serve(a.Spec, prune, a.pruneVersions)
	verify := op(http.MethodPost, "/{id}/verify", "verify-versions", api.ScopeRead, "Verify that every version can be restored", storeProblems...)
	verify.Timeout = exchange.Unlimited
	rest.Serve(a.Spec, verify, a.verifyVersions)
}

// findRepo finds a sandbox and the repository of its versions. It finds a deleted sandbox by its id.
func (a *handlers) findRepo(ctx context.Context, ref string) (sandbox.Sandbox, *workspace.Repo, error) {
	s, err := a.Record(ctx, ref)
	if err != nil {
		return s, nil, err
	}
	if !a.Syncer.Saves(s) {
		e := fault.Errorf("find versions", api.CodeUnsupported, "this server does not save the workspace of sandbox %s", s.ID)
		e.Hint = "Its template says sync = false, or the server was started with object_store none."
		return s, nil, e
	}
	return s, a.Syncer.Repo(s), nil
}

// readable is findRepo for requests that need only the object store. It returns an error within seconds if the store
// does not answer.
func (a *handlers) readable(ctx context.Context, ref string) (sandbox.Sandbox, *workspace.Repo, error) {
	s, repo, err := a.findRepo(ctx, ref)
	if err == nil {
		err = a.Syncer.CheckReachable(ctx)
	}
	return s, repo, err
}

type listVersions struct {
	access.ByRef
	rest.Paging
}

func (a *handlers) listVersions(ctx context.Context, in *listVersions) (*rest.Reply[api.List[api.Version]], error) {
	s, repo, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	after, err := rest.ParseCursor("versions", in.Cursor)
	if err != nil || after.ID != "" && after.ID != sandbox.PublicID(s.ID) {
		return nil, rest.BadCursor()
	}
	out := &rest.Reply[api.List[api.Version]]{Body: api.List[api.Version]{Items: []api.Version{}}}
	for v, err := range repo.Versions(ctx) {
		switch {
		case err != nil:
			return nil, workspacesync.WrapError("list versions", err)
		case after.ID != "" && v.Sequence >= after.At:
			continue
		case len(out.Body.Items) == in.Limit:
			last := out.Body.Items[in.Limit-1].Sequence
			out.Body.NextCursor = rest.Cursor{List: "versions", At: last, ID: s.ID}.String()
			return out, nil
		}
		out.Body.Items = append(out.Body.Items, versionOut(v))
	}
	return out, nil
}

// ByVersion is the path parameters of routes for one version of a sandbox's workspace.
type ByVersion struct {
	access.ByRef
	Version string `path:"version" maxLength:"100" doc:"The version's id"`
}

func (a *handlers) getVersion(ctx context.Context, in *ByVersion) (*rest.Reply[api.VersionDetail], error) {
	_, repo, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before, v, diff, err := workspacesync.Diff(ctx, repo, "", in.Version)
	if err != nil {
		return nil, workspacesync.WrapError("read version", err)
	}
	return &rest.Reply[api.VersionDetail]{Body: api.VersionDetail{Version: versionOut(v), Changes: diffOut(before, v, diff)}}, nil
}

type diffVersions struct {
	ByVersion
	Other string `path:"other" maxLength:"100" doc:"The id of the version to compare with"`
}

func (a *handlers) diffVersions(ctx context.Context, in *diffVersions) (*rest.Reply[api.VersionDiff], error) {
	_, repo, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	from, to, diff, err := workspacesync.Diff(ctx, repo, in.Version, in.Other)
	if err != nil {
		return nil, workspacesync.WrapError("compare versions", err)
	}
	return &rest.Reply[api.VersionDiff]{Body: diffOut(from, to, diff)}, nil
}

// Limits of the paths that a difference lists. Its counts include all paths.
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
