package workspacesync

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/workspace"
)

// storedFS gives read access to the files of a version. No file is on a disk: symbolic links are resolved as text,
// only within the entries of the version.
type storedFS struct{ *workspace.Snapshot }

var _ files.FS = (*storedFS)(nil)

// mostLinks is the maximum number of symbolic links in the resolution of a path, as in Linux.
const mostLinks = 40

// at returns the entry of a path without following links. The entry of the root is nil.
func (v *storedFS) at(name string) (*workspace.Entry, bool) {
	if name == "" {
		return nil, true
	}
	all := v.Manifest.Entries
	i, ok := sort.Find(len(all), func(i int) int { return strings.Compare(name, all[i].Path) })
	if !ok {
		return nil, false
	}
	return &all[i], true
}

// resolve follows the symbolic links in a path. It follows a link in the last element only if last is set. It
// returns the resolved path and its entry, which is nil for the root.
func (v *storedFS) resolve(op, name string, last bool) (string, *workspace.Entry, error) {
	rest, dir := strings.Split(name, "/"), ""
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if dir == "" {
				return "", nil, fileError(op, api.CodePathOutside, "%q leads out of its root, through a link", name)
			}
			if dir = path.Dir(dir); dir == "." {
				dir = ""
			}
			continue
		}
		next := path.Join(dir, part)
		e, ok := v.at(next)
		switch {
		case !ok:
			return "", nil, v.absent(op, name, dir)
		case e.Kind == workspace.Link && (last || len(rest) > 0):
			if links++; links > mostLinks {
				return "", nil, fileError(op, api.CodeInvalidPath, "%q leads through too many links", name)
			}
			if strings.HasPrefix(e.Target, "/") {
				return "", nil, fileError(op, api.CodePathOutside, "%q leads out of its root, through a link", name)
			}
			rest = append(strings.Split(e.Target, "/"), rest...)
			if len(rest) > files.MaxPath {
				return "", nil, fileError(op, api.CodeInvalidPath, "%q leads through too many links", name)
			}
		default:
			dir = next
		}
	}
	e, ok := v.at(dir)
	if !ok {
		return "", nil, v.absent(op, name, dir)
	}
	return dir, e, nil
}

// absent returns the error for a missing path. The error says so if dir is not a folder.
func (v *storedFS) absent(op, name, dir string) error {
	if above, ok := v.at(dir); ok && above != nil && above.Kind != workspace.Folder {
		return fileError(op, api.CodeNotADirectory, "%q is not a directory, or something above it is not", name)
	}
	return fileError(op, api.CodeFileNotFound, "there is no %q", name)
}

func fileError(op string, code api.Code, format, name string) error {
	if name == "" {
		name = "."
	}
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "") + "…"
	}
	return fault.Errorf(op, code, format, name)
}

// info describes an entry. Its path is the requested name.
func (v *storedFS) info(name string, e *workspace.Entry) files.Info {
	if e == nil {
		return files.Info{Path: name, Mode: fs.ModeDir | 0o755, ModTime: moment(v.Manifest.At.UnixNano()), Tag: "v-" + v.Version.ID}
	}
	out := files.Info{Path: name, Mode: fs.FileMode(e.Mode & 0o777), Size: e.Size, ModTime: moment(e.ModTime), Target: e.Target}
	switch e.Kind {
	case workspace.Folder:
		out.Mode, out.Size, out.Tag = out.Mode|fs.ModeDir, 0, "v-"+v.Version.ID
	case workspace.Link:
		out.Mode, out.Size, out.Tag = out.Mode|fs.ModeSymlink, int64(len(e.Target)), "v-"+v.Version.ID
	default:
		out.Tag = fmt.Sprintf("v-%s-%x", hex.EncodeToString(e.Sum.SHA256[:12]), e.ModTime)
	}
	return out
}

func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// Stat implements files.FS.
func (v *storedFS) Stat(_ context.Context, name string) (files.Info, error) {
	_, e, err := v.resolve("stat file", name, false)
	if err != nil {
		return files.Info{}, err
	}
	return v.info(name, e), nil
}

// ReadDir implements files.FS. All entries below a folder are one range of the sorted list; ReadDir skips those in
// subfolders.
func (v *storedFS) ReadDir(ctx context.Context, name, after string, limit int) ([]files.Info, error) {
	dir, e, err := v.resolve("list folder", name, true)
	if err != nil {
		return nil, err
	}
	if e != nil && e.Kind != workspace.Folder {
		return nil, fileError("list folder", api.CodeNotADirectory, "%q is not a directory, or something above it is not", name)
	}
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	all := v.Manifest.Entries
	from := func(least string) int {
		return sort.Search(len(all), func(i int) bool { return all[i].Path >= least })
	}
	i := from(prefix)
	if after != "" {
		i = from(prefix + after + "\x00")
	}
	var out []files.Info
	for i < len(all) && len(out) < limit && strings.HasPrefix(all[i].Path, prefix) && ctx.Err() == nil {
		child, _, deeper := strings.Cut(all[i].Path[len(prefix):], "/")
		if deeper {
			i = from(prefix + child + "0") // '0' is the byte after '/'
			continue
		}
		out = append(out, v.info(path.Join(name, child), &all[i]))
		i++
	}
	return out, ctx.Err()
}

// Open implements files.FS. It calls the store at once, so that a failure is an error of Open and not a truncated
// file.
func (v *storedFS) Open(ctx context.Context, name string) (files.Reader, error) {
	_, e, err := v.resolve("read file", name, true)
	switch {
	case err != nil:
		return nil, err
	case e == nil || e.Kind == workspace.Folder:
		return nil, fileError("read file", api.CodeIsADirectory, "%q is a directory", name)
	}
	info := v.info(name, e)
	if !e.Large() {
		data, err := within(ctx, storeWait, func(ctx context.Context) ([]byte, error) { return v.Bytes(ctx, e) })
		if err != nil {
			return nil, err
		}
		return &smallFile{strings.NewReader(string(data)), info}, nil
	}
	f := &largeFile{ctx: ctx, v: v, e: e, info: info}
	if err := f.seek(0); err != nil {
		return nil, err
	}
	return f, nil
}

// smallFile is an open file whose content is in memory.
type smallFile struct {
	*strings.Reader
	info files.Info
}

func (f *smallFile) Info() files.Info { return f.info }
func (f *smallFile) Close() error     { return nil }

// Write implements files.FS. Like the methods below, it returns an error.
func (*storedFS) Write(context.Context, string, io.Reader, files.WriteOptions) (files.Info, bool, error) {
	return files.Info{}, false, readOnly("write file")
}

func (*storedFS) Mkdir(context.Context, string) error                { return readOnly("make folder") }
func (*storedFS) Symlink(context.Context, string, string) error      { return readOnly("make link") }
func (*storedFS) Remove(context.Context, string, bool) error         { return readOnly("delete file") }
func (*storedFS) Rename(context.Context, string, string, bool) error { return readOnly("move file") }
func (*storedFS) Close() error                                       { return nil }
