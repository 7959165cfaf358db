package cli

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

// fileRoutes serve the machine's folder as a sandbox's files; the home is the folder "home" in it.
func (m *machine) fileRoutes(mux *http.ServeMux) {
	const base = "/api/v1/sandboxes/{id}"
	on := func(pattern string, do func(w http.ResponseWriter, r *http.Request, fsys files.FS) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			dir := m.dir
			if r.URL.Query().Get("source") == api.SourceHomeDir {
				dir += "/home"
			}
			root, err := os.Open(dir)
			if err != nil {
				refuse(w, api.CodeInternal, err.Error())
				return
			}
			fsys, err := files.NewDir(root, files.Owner{})
			if m.notice != "" {
				w.Header().Set(api.HeaderNotice, m.notice)
			}
			if err == nil {
				defer fsys.Close()
				err = do(w, r, fsys)
			}
			if err != nil {
				_, _ = io.Copy(io.Discard, r.Body)
				refuse(w, fault.CodeOf(err), err.Error())
			}
		})
	}
	on("GET "+base+"/files", func(w http.ResponseWriter, r *http.Request, fsys files.FS) error {
		q := r.URL.Query()
		depth, _ := strconv.Atoi(q.Get("depth"))
		page, err := files.List(r.Context(), fsys, files.ListOptions{Path: q.Get("path"), Depth: max(depth, 1), Hidden: q.Get("hidden") == "true", Limit: 2, Cursor: q.Get("cursor")})
		if err != nil {
			return err
		}
		list := api.List[api.File]{NextCursor: page.Next}
		for _, info := range page.Items {
			list.Items = append(list.Items, shownInfo(info))
		}
		reply(w, 200, list)
		return nil
	})
	on("GET "+base+"/tree", func(w http.ResponseWriter, r *http.Request, fsys files.FS) error {
		q := r.URL.Query()
		depth, _ := strconv.Atoi(q.Get("depth"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		node, cut, err := files.Tree(r.Context(), fsys, files.TreeOptions{Path: q.Get("path"), Depth: depth, Limit: limit, Hidden: q.Get("hidden") == "true"})
		if err != nil {
			return err
		}
		tree := shownNode(node)
		tree.Truncated = cut
		reply(w, 200, tree)
		return nil
	})
	on("GET "+base+"/files/{path...}", func(w http.ResponseWriter, r *http.Request, fsys files.FS) error {
		if r.URL.Query().Get("stat") == "true" {
			info, err := fsys.Stat(r.Context(), r.PathValue("path"))
			if err == nil {
				reply(w, 200, shownInfo(info))
			}
			return err
		}
		file, err := fsys.Open(r.Context(), r.PathValue("path"))
		if err != nil {
			return err
		}
		defer file.Close()
		w.Header().Set(api.HeaderFileSize, strconv.FormatInt(file.Info().Size, 10))
		_, _ = io.Copy(w, file)
		return nil
	})
	on("PUT "+base+"/files/{path...}", func(w http.ResponseWriter, r *http.Request, fsys files.FS) error {
		mode, _ := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 16)
		info, _, err := fsys.Write(r.Context(), r.PathValue("path"), r.Body, files.WriteOptions{Perm: fs.FileMode(mode)})
		if err == nil {
			reply(w, 201, shownInfo(info))
		}
		return err
	})
	on("GET "+base+"/archive", func(w http.ResponseWriter, r *http.Request, fsys files.FS) error {
		w.Header().Set("Trailer", api.HeaderSkipped)
		if m.archive != nil {
			_, _ = io.Copy(w, m.archive())
			return nil
		}
		packed, err := files.Pack(r.Context(), fsys, w, files.PackOptions{Path: r.URL.Query().Get("path")})
		w.Header().Set(api.HeaderSkipped, strconv.Itoa(packed.Skipped))
		return err
	})
	on("PUT "+base+"/archive", func(w http.ResponseWriter, r *http.Request, fsys files.FS) error {
		got, err := files.Unpack(r.Context(), fsys, r.Body, files.UnpackOptions{Path: r.URL.Query().Get("path")})
		if err == nil {
			reply(w, 200, api.Unpacked(got))
		}
		return err
	})
}

func shownInfo(info files.Info) api.File {
	kind := map[fs.FileMode]string{0: api.FileRegular, fs.ModeDir: api.FileDirectory, fs.ModeSymlink: api.FileSymlink, fs.ModeNamedPipe: api.FilePipe}[info.Mode.Type()]
	return api.File{Path: info.Path, Name: path.Base(info.Path), Type: kind, Size: info.Size, Mode: fmt.Sprintf("%04o", info.Mode.Perm()), ModifiedAt: info.ModTime, Target: info.Target}
}

func shownNode(n *files.Node) api.FileTree {
	out := api.FileTree{File: shownInfo(n.Info), Truncated: n.Truncated}
	for _, child := range n.Children {
		out.Children = append(out.Children, shownNode(child))
	}
	return out
}
