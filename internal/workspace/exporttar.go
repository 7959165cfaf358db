package workspace

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"time"
)

// ExportTar writes a version as a tar archive. An empty id means the newest version. After an error the archive has
// no end marker, so that readers do not take it for complete.
func (r *Repo) ExportTar(ctx context.Context, id string, to io.Writer) (*Exported, error) {
	v, m, err := r.Version(ctx, id)
	if err != nil {
		return nil, err
	}
	done := &Exported{Version: v.ID}
	tw := tar.NewWriter(to)
	w := newWindows(r, m.Packs, m.Entries)
	for i := range m.Entries {
		if err := done.add(ctx, tw, w, &m.Entries[i]); err != nil {
			return nil, fmt.Errorf("archive %s: %w", m.Entries[i].Path, err)
		}
	}
	return done, tw.Close()
}

func (x *Exported) add(ctx context.Context, tw *tar.Writer, w *windows, e *Entry) error {
	h := &tar.Header{Format: tar.FormatPAX, Name: e.Path, Mode: int64(e.Mode), ModTime: time.Unix(0, e.ModTime), Typeflag: tar.TypeReg, Size: e.Size}
	switch e.Kind {
	case Folder:
		h.Typeflag, h.Name, h.Size = tar.TypeDir, e.Path+"/", 0
		return tw.WriteHeader(h)
	case Link:
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, e.Target, 0
		return tw.WriteHeader(h)
	}
	x.Files, x.Bytes = x.Files+1, x.Bytes+e.Size
	return w.content(ctx, e, func(_ *Entry, data io.Reader) error {
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.CopyN(tw, data, e.Size)
		return err
	})
}

// ExportDir writes a version with its state file into an empty tree. An empty id means the newest version.
func (r *Repo) ExportDir(ctx context.Context, id string, to Tree) (*Exported, error) {
	res, err := r.Pull(ctx, to, nil, PullOptions{Version: id})
	if err != nil {
		return nil, err
	}
	files, bytes := res.Index.size()
	return &Exported{Version: res.Version, Files: files, Bytes: bytes}, WriteState(to, res.State)
}
