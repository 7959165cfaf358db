package dirblob

import (
	"context"
	"crypto/rand"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// Copy copies an object to another key; see [blob.Store]. Afterwards both keys are hard links to one file.
func (s *Store) Copy(ctx context.Context, from, to string) error {
	if err := errors.Join(blob.CheckKey(from), blob.CheckKey(to)); err != nil {
		return err
	}
	d, err := s.linkDraft(ctx, from)
	if err != nil {
		return s.explain("copy object", from, err)
	}
	defer d.discard()
	if err := s.publish(ctx, d, to, blob.PutOptions{}); err != nil {
		return s.explain("copy object "+from+" to", to, err)
	}
	return nil
}

// linkDraft returns a draft that is a hard link to the object's file. If the file cannot have another link, the draft
// is a copy of its bytes.
func (s *Store) linkDraft(ctx context.Context, key string) (*draft, error) {
	at, name := pathOf(key)
	dir, err := s.folderAt(at)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	d := &draft{folder: s.tmp, name: rand.Text()}
	err = dir.link(name, s.tmp, d.name)
	if errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) {
		return s.bytesOf(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.tmp.stat(d.name); err != nil {
		d.discard()
		return nil, err
	}
	return d, nil
}

func (s *Store) bytesOf(ctx context.Context, key string) (*draft, error) {
	at, name := pathOf(key)
	f, st, err := s.objects.open(join(at, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.write(ctx, f, st.Size)
}

// folderAt opens a folder below objects. An empty path opens objects itself.
func (s *Store) folderAt(path string) (folder, error) {
	if path == "" {
		path = "."
	}
	return s.objects.sub(path)
}
