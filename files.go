package berth

import (
	"cmp"
	"context"
	"io"
	iofs "io/fs"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

// The roots of a sandbox's files.
const (
	WorkingDir = api.SourceWorkingDir // the workspace, which is saved
	HomeDir    = api.SourceHomeDir    // the home directory of the sandbox's user
)

// MaxFileContent is the size of the largest file that [Sandbox.FileContent] reads.
const MaxFileContent = 10 << 20

// ListOptions selects the files that [Sandbox.ListFiles] lists.
type ListOptions struct {
	Source  string // WorkingDir or HomeDir; empty: WorkingDir
	Path    string // a directory below the root; empty: the root
	Depth   int    // number of levels; zero: 1
	Hidden  bool   // includes names that begin with a dot
	Pattern string // selects matching names, as in path.Match; a pattern with a slash is matched against the path
	Limit   int    // maximum number of files in one page; zero: 1,000
	Cursor  string // NextCursor of the previous page; empty: the first page
}

// ListFiles lists files, each directory before its content. It does not start the sandbox: for a terminated sandbox
// it lists the files of the newest version.
func (s *Sandbox) ListFiles(ctx context.Context, o ListOptions) (api.List[api.File], error) {
	list := api.List[api.File]{Items: []api.File{}}
	err := s.read(ctx, o.Source, o.Path, func(fs files.FS, path string) error {
		page, err := files.List(ctx, fs, files.ListOptions{
			Path: path, Depth: o.Depth, Hidden: o.Hidden, Pattern: o.Pattern, Limit: o.Limit, Cursor: o.Cursor,
		})
		for _, info := range page.Items {
			list.Items = append(list.Items, files.Show(info))
		}
		list.NextCursor = page.Next
		return err
	})
	return list, wrap("list files", err)
}

// TreeOptions selects the files of [Sandbox.FileTree].
type TreeOptions struct {
	Source string // WorkingDir or HomeDir; empty: WorkingDir
	Path   string // a directory below the root; empty: the root
	Depth  int    // number of levels; zero: 3
	Hidden bool   // includes names that begin with a dot
	Limit  int    // maximum number of files; zero: 1,000
}

// FileTree returns files as a tree. Truncated is set at the root if a limit left files out.
func (s *Sandbox) FileTree(ctx context.Context, o TreeOptions) (tree api.FileTree, err error) {
	err = s.read(ctx, o.Source, o.Path, func(fs files.FS, path string) error {
		root, truncated, err := files.Tree(ctx, fs, files.TreeOptions{Path: path, Depth: o.Depth, Hidden: o.Hidden, Limit: o.Limit})
		if err != nil {
			return err
		}
		tree = files.ShowTree(root)
		tree.Truncated = truncated
		return nil
	})
	return tree, wrap("read file tree", err)
}

// FileContent reads a file below one root. It refuses a file larger than [MaxFileContent] with the code too_large,
// and a path that leads out of the root with the code path_outside_workspace.
func (s *Sandbox) FileContent(ctx context.Context, source, path string) (content []byte, err error) {
	err = s.read(ctx, source, path, func(fs files.FS, path string) error {
		file, err := fs.Open(ctx, path)
		if err != nil {
			return err
		}
		defer file.Close()
		content, err = io.ReadAll(io.LimitReader(file, MaxFileContent+1))
		if len(content) > MaxFileContent {
			content = nil
			return fault.Errorf("", api.CodeTooLarge, "the file has more than %d bytes", MaxFileContent)
		}
		return err
	})
	return content, wrap("read file", err)
}

// WriteFile writes a file below one root. Readers see either the old content or the new. It starts the sandbox and
// makes missing directories. A zero mode keeps the permissions of an existing file, and is 0644 for a new one; only
// the permission bits of mode count.
func (s *Sandbox) WriteFile(ctx context.Context, source, path string, content io.Reader, mode iofs.FileMode) (api.File, error) {
	const op = "write file"
	source, path, err := cleanPath(source, path)
	if err == nil && content == nil {
		err = fault.Errorf("", api.CodeInvalidRequest, "there is no content: the reader is nil")
	}
	if err != nil {
		return api.File{}, wrap(op, err)
	}
	h, _, err := s.runningHandle(ctx)
	if err != nil {
		return api.File{}, wrap(op, err)
	}
	fs, err := h.Files(ctx, source)
	if err != nil {
		return api.File{}, wrap(op, err)
	}
	defer fs.Close()
	failed := new(ioFailure)
	info, _, err := fs.Write(ctx, path, failed.reader(content), files.WriteOptions{Perm: mode})
	if err != nil {
		return api.File{}, wrap(op, cmp.Or(failed.err(), err))
	}
	return files.Show(info), nil
}

// read calls do with a cleaned path and with the files of one root, open for reading.
func (s *Sandbox) read(ctx context.Context, source, path string, do func(fs files.FS, path string) error) error {
	source, path, err := cleanPath(source, path)
	if err != nil {
		return err
	}
	h, record, err := s.handle(ctx)
	if err != nil {
		return err
	}
	fs, err := s.b.system.Syncer().ReadFiles(ctx, h, record, source)
	if err != nil {
		return err
	}
	defer fs.Close()
	return do(fs, path)
}

func cleanPath(source, path string) (string, string, error) {
	switch source {
	case "":
		source = WorkingDir
	case WorkingDir, HomeDir:
	default:
		return "", "", fault.Errorf("", api.CodeInvalidRequest, "the source %q is neither %s nor %s", source, WorkingDir, HomeDir)
	}
	path, err := files.Clean(path)
	return source, path, err
}
