package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api"
)

// The calls for files take a source, api.SourceHomeDir or api.SourceWorkingDir (also if empty), and a path relative
// to it, with slashes. They never start a sandbox.

// FileFilter selects files. Empty fields select all; a Depth of zero means one level.
type FileFilter struct {
	Source, Path, Pattern string
	Depth                 int
	Hidden                bool
}

// ListFiles yields files, each folder before its contents.
func (s Sandboxes) ListFiles(ctx context.Context, ref string, filter FileFilter) iter.Seq2[api.File, error] {
	q := fileQuery(filter.Source, "path", filter.Path, "pattern", filter.Pattern, "hidden", yes(filter.Hidden))
	if filter.Depth > 0 {
		q.Set("depth", strconv.Itoa(filter.Depth))
	}
	return all[api.File](ctx, s.c, "list files", q, sandboxesPath, ref, "files")
}

// Tree gets the files below a folder as a tree. If the depth or limit is zero, the server's limit applies. Truncated
// at the root of the tree reports whether files are missing.
func (s Sandboxes) Tree(ctx context.Context, ref string, filter FileFilter, limit int) (tree api.FileTree, err error) {
	q := fileQuery(filter.Source, "path", filter.Path, "hidden", yes(filter.Hidden))
	for name, n := range map[string]int{"depth": filter.Depth, "limit": limit} {
		if n > 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	_, err = s.c.do(ctx, call{op: "read tree", method: http.MethodGet, path: path{sandboxesPath, ref, "tree"}, query: q}, &tree)
	return tree, err
}

// StatFile describes a file, folder or link.
func (s Sandboxes) StatFile(ctx context.Context, ref, source, name string) (file api.File, err error) {
	const op = "stat file"
	at, err := filePath(ref, name)
	if err != nil {
		return file, fmt.Errorf("%s: %w", op, err)
	}
	_, err = s.c.do(ctx, call{op: op, method: http.MethodGet, path: at, query: fileQuery(source, "stat", "true")}, &file)
	return file, err
}

// Mkdir makes a folder and its missing parents. It returns no error if the folder exists.
func (s Sandboxes) Mkdir(ctx context.Context, ref, source, name string) (api.File, error) {
	return s.act(ctx, "make folder", ref, source, name, api.FileOperation{Op: "mkdir"})
}

// MoveFile moves a file or folder within its source. It replaces a file only if replace is set.
func (s Sandboxes) MoveFile(ctx context.Context, ref, source, from, to string, replace bool) (api.File, error) {
	return s.act(ctx, "move file", ref, source, from, api.FileOperation{Op: "move", To: to, Replace: replace})
}

func (s Sandboxes) act(ctx context.Context, op, ref, source, name string, want api.FileOperation) (file api.File, err error) {
	at, err := filePath(ref, name)
	if err != nil {
		return file, fmt.Errorf("%s: %w", op, err)
	}
	_, err = s.c.do(ctx, call{op: op, method: http.MethodPost, path: at, query: fileQuery(source), body: want}, &file)
	return file, err
}

// DeleteFile deletes a file, a link or a folder. It deletes a folder with contents only if recursive is set.
func (s Sandboxes) DeleteFile(ctx context.Context, ref, source, name string, recursive bool) error {
	const op = "delete file"
	at, err := filePath(ref, name)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	got, err := s.c.do(ctx, call{op: op, method: http.MethodDelete, path: at, query: fileQuery(source, "recursive", yes(recursive))}, nil)
	// An earlier attempt whose answer was lost has deleted the file.
	if p := new(api.Problem); got.attempts > 1 && errors.As(err, &p) && p.Code == api.CodeFileNotFound {
		return nil
	}
	return err
}

// ReadOptions selects a part of a file. The zero value is the whole file.
type ReadOptions struct {
	Offset, Length int64 // a range; a Length of zero reads to the end
	MaxBytes       int64 // maximum number of bytes; Download.Truncated reports a cut. Zero: no limit
}

func (o ReadOptions) header() http.Header {
	h := http.Header{}
	switch {
	case o.Length > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", o.Offset, o.Offset+o.Length-1))
	case o.Offset > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-", o.Offset))
	}
	return h
}

// WriteOptions configures the writing of a file.
type WriteOptions struct {
	Mode fs.FileMode // permissions; zero keeps those of an existing file
	New  bool        // fail with precondition_failed if the file exists
}

func (o WriteOptions) mode() string {
	if o.Mode.Perm() == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(o.Mode.Perm()), 8)
}

// filePath returns the route of one file.
func filePath(ref, name string) (path, error) {
	at := path{sandboxesPath, ref, "files"}
	for segment := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/"), "/") {
		// Such a segment could change which resource the URL names.
		if strings.Trim(segment, ".") == "" {
			return nil, api.NewProblem(api.CodePathOutside, fmt.Sprintf("the path %q is not one below the root", name))
		}
		at = append(at, segment)
	}
	return at, nil
}

// fileQuery returns a query with the source and the pairs of name and value. It omits empty values.
func fileQuery(source string, pairs ...string) url.Values {
	q := url.Values{}
	pairs = append(pairs, "source", source)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

func yes(on bool) string {
	if on {
		return "true"
	}
	return ""
}
