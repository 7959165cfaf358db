package httpapi

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	maxUpload   = 1 << 30   // bytes of one file or archive that is sent
	maxArchive  = 8 << 30   // bytes of the files in one archive that is read
	fileTime    = time.Hour // for one transfer
	maxTree     = 10_000    // nodes
	maxDeepTree = 64        // levels: JSON nests as deep
)

// finding are the problems of whatever looks at a sandbox's files, and changing of what changes them.
var (
	finding = slices.Clip(slices.Concat(reaching, []api.Code{
		api.CodePathOutside, api.CodeFileNotFound, api.CodeFileDenied, api.CodeNotADirectory,
		api.CodeBlobUnreachable, api.CodeBadManifest, api.CodeSyncFailed, api.CodeWorkspaceTooLarge,
	}))
	changing = slices.Clip(slices.Concat(finding, []api.Code{
		api.CodeFileExists, api.CodeIsADirectory, api.CodeSpecialFile, api.CodeDiskFull, api.CodeConflict,
	}))
)

// addFiles adds the routes of a sandbox's files. Reads start no sandbox and do not count as its use; changes start
// one that has no instance.
func (a *Handler) addFiles(op opMaker) {
	serve(a, op(http.MethodGet, "/{id}/files", "list-files", api.ScopeRead, "List files, each folder before what is in it",
		append(finding, api.CodeInvalidCursor)...), a.listFiles)
	serve(a, op(http.MethodGet, "/{id}/tree", "file-tree", api.ScopeRead, "Files as a tree, cut off where it gets too large", finding...), a.fileTree)
	a.addFile(op)
	a.addArchive(op)
}

// InFiles are the parameters of every list of files. It is exported because huma overlooks what is not.
type InFiles struct {
	ByRef
	Source string `query:"source" enum:"working_dir,home_dir" default:"working_dir" doc:"Which root"`
	Path   string `query:"path" maxLength:"8192" doc:"Folder below the root; the root itself if left out"`
	Hidden bool   `query:"hidden" doc:"Names that begin with a dot, too"`
}

type listFiles struct {
	InFiles
	Depth   int    `query:"depth" minimum:"1" maximum:"4096" default:"1" doc:"How many levels"`
	Pattern string `query:"pattern" maxLength:"1024" doc:"Only names that match it, as in *.go; with a slash it is matched against the path below the folder"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"How many at most; a page may have fewer, or none, and still not be the last"`
	Cursor  string `query:"cursor" maxLength:"16384" doc:"next_cursor of the page before"`
}

func (a *Handler) listFiles(ctx context.Context, in *listFiles) (*reply[api.List[api.File]], error) {
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
	out := &reply[api.List[api.File]]{Body: api.List[api.File]{Items: make([]api.File, 0, len(page.Items)), NextCursor: page.Next}}
	for _, info := range page.Items {
		out.Body.Items = append(out.Body.Items, fileOut(info))
	}
	return out, nil
}

type fileTree struct {
	InFiles
	Depth int `query:"depth" minimum:"1" maximum:"64" default:"3" doc:"How many levels"`
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"How many files at most"`
}

func (a *Handler) fileTree(ctx context.Context, in *fileTree) (*reply[api.FileTree], error) {
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
	out := treeOut(node)
	out.Truncated = cut
	return &reply[api.FileTree]{Body: out}, nil
}

// filesAt opens one root of a sandbox's files for reading, and cleans the path that was asked for in it. A sandbox
// without an instance, such as an archived one, has the files of its newest version.
func (a *Handler) filesAt(ctx context.Context, ref, source, name string) (files.FS, string, error) {
	return a.openFiles(ctx, ref, source, name, func(h Handle, s sandbox.Sandbox) (files.FS, error) {
		root, err := h.Files(ctx, source)
		if ends := s.State == sandbox.Terminating; s.Instance != "" && (!ends || sandbox.CodeOf(err) != api.CodeNotRunning) {
			return root, err
		}
		return a.storedFiles(ctx, s, source, err)
	})
}

// filesToChange is filesAt for changes. They make the sandbox run first, also one that is stopped.
func (a *Handler) filesToChange(ctx context.Context, ref, source, name string) (files.FS, string, error) {
	return a.openFiles(ctx, ref, source, name, func(h Handle, s sandbox.Sandbox) (files.FS, error) {
		if err := runForChange(ctx, h, s); err != nil {
			return nil, err
		}
		return h.Files(ctx, source)
	})
}

// runForChange makes a sandbox run before its files are changed. If the start is refused because of the files, they
// are changed as they are: that may be what lets it start.
func runForChange(ctx context.Context, h Handle, s sandbox.Sandbox) error {
	_, err := h.Sandbox(ctx)
	switch sandbox.CodeOf(err) {
	case api.CodeHookFailed, api.CodeMassDelete, api.CodeServerDiskFull:
		if s.Instance != "" {
			return nil
		}
	}
	return err
}

func (a *Handler) openFiles(ctx context.Context, ref, source, name string, open func(Handle, sandbox.Sandbox) (files.FS, error)) (files.FS, string, error) {
	at, err := files.Clean(name)
	if err != nil {
		return nil, "", err
	}
	h, s, err := a.open(ctx, ref)
	if err != nil {
		return nil, "", err
	}
	root, err := open(h, s)
	if err != nil {
		return nil, "", guestError("open files", err)
	}
	return root, at, nil
}

// storedFiles are the files of a sandbox that has no instance; live is why it has none. A sandbox that is being
// made, or failed before it ever saved anything, has no files yet.
func (a *Handler) storedFiles(ctx context.Context, s sandbox.Sandbox, source string, live error) (files.FS, error) {
	never := s.Synced.Version == "" && s.State != sandbox.Archived && s.State != sandbox.Terminated
	if s.Deleted() || never || !a.Keeper.Saves(s) {
		return nil, live
	}
	if source == files.HomeDir {
		e := sandbox.Errorf("open files", api.CodeNotRunning, "sandbox %s is %s, and versions have its workspace alone, not its home directory", s.ID, s.State)
		e.Hint = "Read the workspace (source=working_dir). A home directory ends with its instance: the next one begins with a new one."
		return nil, e
	}
	return a.Keeper.Stored(ctx, s)
}

func fileOut(info files.Info) api.File {
	return api.File{
		Path: plainText(info.Path), Name: plainText(path.Base(info.Path)), Type: fileType(info.Mode), Size: info.Size,
		Mode: fmt.Sprintf("%04o", info.Mode.Perm()), ModifiedAt: info.ModTime, Target: plainText(info.Target), ETag: `"` + info.Tag + `"`,
	}
}

func treeOut(n *files.Node) api.FileTree {
	out := api.FileTree{File: fileOut(n.Info), Truncated: n.Truncated}
	for _, child := range n.Children {
		out.Children = append(out.Children, treeOut(child))
	}
	return out
}

// plainText is a name as JSON can hold it.
func plainText(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func fileType(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return api.FileRegular
	case fs.ModeDir:
		return api.FileDirectory
	case fs.ModeSymlink:
		return api.FileSymlink
	case fs.ModeNamedPipe:
		return api.FilePipe
	case fs.ModeSocket:
		return api.FileSocket
	}
	return api.FileDevice
}

// checkFilePath checks what follows …/files/ in a path, still encoded. Whatever the mux would clean, with
// a redirect, is refused here.
func checkFilePath(escaped string) error {
	name, err := decodePath(escaped)
	if err != nil {
		return err
	}
	if _, err := files.Clean(name); err != nil {
		return err
	}
	switch {
	case name == "":
		return badPath("the path names no file")
	case slices.Contains(strings.Split(escaped, "/"), "."):
		return badPath("the path has a segment of one dot")
	}
	return nil
}

// cutFilePath takes a path of a sandbox's file apart: what leads to the files, and the file's own part.
func cutFilePath(escaped string) (to, name string, ok bool) {
	for _, base := range []string{sandboxesPath + "/", "/api/v1/sandbox/"} {
		rest, found := strings.CutPrefix(escaped, base)
		if !found {
			continue
		}
		id, rest, _ := strings.Cut(rest, "/")
		if name, found := strings.CutPrefix(rest, "files/"); found {
			return base + id + "/files", name, true
		}
	}
	return escaped, "", false
}
