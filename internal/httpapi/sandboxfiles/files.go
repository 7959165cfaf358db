package sandboxfiles

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	maxUpload   = 1 << 30   // maximum bytes of one upload
	maxArchive  = 8 << 30   // maximum bytes of the files in one downloaded archive
	fileTime    = time.Hour // time limit of one transfer
	maxTree     = 10_000    // maximum number of files in a tree
	maxDeepTree = 64        // maximum depth of a tree, whose JSON is nested as deeply
)

// readProblems are the problems of routes that read a sandbox's files, changeProblems of routes that change them.
var (
	readProblems = slices.Clip(slices.Concat(access.ReachProblems, []api.Code{
		api.CodePathOutside, api.CodeFileNotFound, api.CodeFileDenied, api.CodeNotADirectory,
		api.CodeBlobUnreachable, api.CodeBadManifest, api.CodeSyncFailed, api.CodeWorkspaceTooLarge,
	}))
	changeProblems = slices.Clip(slices.Concat(readProblems, []api.Code{
		api.CodeFileExists, api.CodeIsADirectory, api.CodeSpecialFile, api.CodeDiskFull, api.CodeConflict,
	}))
)

// addFiles adds the routes of a sandbox's files. Reads do not start the sandbox and do not count as use. Changes
// start it. The header Berth-Notice of an answer describes changes of the files since the last use.
func (a *handlers) addFiles(op access.OperationFunc) {
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/files", "list-files", api.ScopeRead, "List files",
		append(readProblems, api.CodeInvalidCursor)...), a.listFiles)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/tree", "file-tree", api.ScopeRead, "Get a folder's files as a tree", readProblems...), a.fileTree)
	a.addFile(op)
	a.addArchive(op)
}

// InFiles has the parameters of every list of files. It is exported because huma ignores unexported embedded structs.
type InFiles struct {
	access.ByRef
	Source string `query:"source" enum:"working_dir,home_dir" default:"working_dir" doc:"The root"`
	Path   string `query:"path" maxLength:"8192" doc:"A folder below the root; default: the root"`
	Hidden bool   `query:"hidden" doc:"Include names that begin with a dot"`
}

type listFiles struct {
	InFiles
	Depth   int    `query:"depth" minimum:"1" maximum:"4096" default:"1" doc:"Maximum depth"`
	Pattern string `query:"pattern" maxLength:"1024" doc:"Only names that match this pattern, such as *.go; a pattern with a slash is matched against the path below the folder"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"Maximum number of items; a page can have fewer and still not be the last"`
	Cursor  string `query:"cursor" maxLength:"16384" doc:"The next_cursor of the previous page"`
}

func (a *handlers) listFiles(ctx context.Context, in *listFiles) (*rest.Reply[api.List[api.File]], error) {
	root, at, err := a.filesAt(ctx, in.ID, in.Source, in.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	page, err := files.List(ctx, root, files.ListOptions{
		Path: at, Depth: in.Depth, Hidden: in.Hidden, Pattern: in.Pattern, Limit: in.Limit, Cursor: in.Cursor,
	})
	if err != nil {
		return nil, err
	}
	out := &rest.Reply[api.List[api.File]]{Body: api.List[api.File]{Items: make([]api.File, 0, len(page.Items)), NextCursor: page.Next}}
	for _, info := range page.Items {
		out.Body.Items = append(out.Body.Items, files.Show(info))
	}
	return out, nil
}

type fileTree struct {
	InFiles
	Depth int `query:"depth" minimum:"1" maximum:"64" default:"3" doc:"Maximum depth"`
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"Maximum number of files"`
}

func (a *handlers) fileTree(ctx context.Context, in *fileTree) (*rest.Reply[api.FileTree], error) {
	root, at, err := a.filesAt(ctx, in.ID, in.Source, in.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	node, cut, err := files.Tree(ctx, root, files.TreeOptions{
		Path: at, Depth: min(in.Depth, maxDeepTree), Hidden: in.Hidden, Limit: min(in.Limit, maxTree),
	})
	if err != nil {
		return nil, err
	}
	out := files.ShowTree(node)
	out.Truncated = cut
	return &rest.Reply[api.FileTree]{Body: out}, nil
}

// filesAt opens one root of a sandbox's files for reading and cleans the path. For a sandbox without an instance,
// such as an archived one, it opens the newest version.
func (a *handlers) filesAt(ctx context.Context, ref, source, name string) (files.FS, string, error) {
	return a.openFiles(ctx, ref, source, name, func(h *engine.Handle, s sandbox.Sandbox) (files.FS, error) {
		return a.Syncer.ReadFiles(ctx, h, s, source)
	})
}

// filesToChange is filesAt for changes. It starts the sandbox first if it does not run.
func (a *handlers) filesToChange(ctx context.Context, ref, source, name string) (files.FS, string, error) {
	return a.openFiles(ctx, ref, source, name, func(h *engine.Handle, s sandbox.Sandbox) (files.FS, error) {
		if err := access.RunForChange(ctx, h, s); err != nil {
			return nil, err
		}
		return h.Files(ctx, source)
	})
}

func (a *handlers) openFiles(ctx context.Context, ref, source, name string, open func(*engine.Handle, sandbox.Sandbox) (files.FS, error)) (files.FS, string, error) {
	at, err := files.Clean(name)
	if err != nil {
		return nil, "", err
	}
	h, s, err := a.Handle(ctx, ref)
	if err != nil {
		return nil, "", err
	}
	root, err := open(h, s)
	if err != nil {
		return nil, "", access.GuestError("open files", err)
	}
	access.SetHandleNotice(ctx, h)
	return root, at, nil
}
