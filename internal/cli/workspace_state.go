package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/workspace"
)

// stateFile is what a directory says of itself: the manifest of the version it was last the same as.
type stateFile struct {
	text   []byte
	digest [sha256.Size]byte
}

// mostState bounds what is read of one.
const mostState = 1 << 30

// readStateFile reads a directory's; nil: it has none.
func readStateFile(dir string) (*stateFile, error) {
	path := filepath.Join(dir, workspace.StateFile)
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case errors.Is(err, unix.ELOOP):
		return nil, notPlain(path)
	case err != nil:
		return nil, fmt.Errorf("read the state file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the state file: %w", err)
	case !info.Mode().IsRegular() || info.Size() > mostState:
		return nil, notPlain(path)
	}
	text := make([]byte, info.Size())
	if _, err := io.ReadFull(file, text); err != nil {
		return nil, fmt.Errorf("read the state file: %w", err)
	}
	return &stateFile{text, sha256.Sum256(text)}, nil
}

func notPlain(path string) error {
	return refusal(api.CodeSpecialFile, "Move it away, and type the same again.", "%s is not a plain file of a usual size", path)
}

// base is what the directory was last the same as: the version that its state file is the manifest of.
// The index is that version with the times of the files, and believed only if it is of this very state
// file. Nil: nothing is known, so that nothing will be deleted.
func (t *worktree) base(ctx context.Context, repo *workspace.Repo) (*workspace.Index, error) {
	if t.state == nil {
		return nil, nil
	}
	index, err := t.index()
	if err == nil && index != nil && index.Digest == t.state.digest {
		return index, nil
	}
	m, err := workspace.Decode(t.state.text)
	switch {
	case err != nil && newerFormat(t.state.text):
		return nil, fmt.Errorf("read the state file %s: %w", filepath.Join(t.path, workspace.StateFile), err)
	case err != nil:
		t.f.warnf("the state file cannot be read, so that everything is compared anew: %s", clean(err.Error()))
		return nil, nil
	}
	return t.find(ctx, repo, m.ID)
}

// find looks for the version that the state file is the manifest of, byte by byte.
func (t *worktree) find(ctx context.Context, repo *workspace.Repo, id string) (*workspace.Index, error) {
	t.elsewhere = true
	for v, err := range repo.Versions(ctx) {
		t.elsewhere = false
		switch {
		case err != nil:
			return nil, storeHint(err)
		case t.state.is(v):
			return repo.BaseOf(ctx, v.ID)
		case v.ID == id:
			t.f.warnf("the state file is not what was saved as version %s, so that everything is compared anew", clean(id))
			return nil, nil
		}
	}
	return nil, nil
}

// newerFormat reports whether a state file is of a format that is yet to come. Not to know it is no
// reason to overwrite it.
func newerFormat(text []byte) bool {
	var state struct{ Version string }
	if json.Unmarshal(text, &state) != nil {
		return false
	}
	major, _, _ := strings.Cut(state.Version, ".")
	ours, _, _ := strings.Cut(workspace.FormatVersion, ".")
	return major != ours && major != "" && strings.Trim(major, "0123456789") == ""
}

// keep writes down what the directory is now the same as: the state file first, which decides, and then
// the index, which only makes the next sync fast.
func (t *worktree) keep(ctx context.Context, repo *workspace.Repo, res *workspace.Result) error {
	if t.state == nil || t.state.digest != res.Index.Digest {
		if err := t.writeState(ctx, repo, res); err != nil {
			return fmt.Errorf("it is done, but the state file could not be written, so that the next sync compares everything anew: %w", err)
		}
	}
	if err := res.Index.Save(t.indexPath()); err != nil {
		t.f.warnf("the index could not be written, so that the next sync reads every file: %s", clean(err.Error()))
	}
	return nil
}

// writeState writes the manifest of the version that the index is of. Other tools may have stored it
// without one: then it is the engine's, if it has one to give.
func (t *worktree) writeState(ctx context.Context, repo *workspace.Repo, res *workspace.Result) (err error) {
	var none [sha256.Size]byte
	text := res.State
	switch {
	case text != nil && res.Version == res.Index.ID:
	case res.Index.Digest == none:
		return nil
	default:
		if text, err = stateText(ctx, repo, res); err != nil {
			return err
		}
	}
	if res.Index.Digest == none {
		res.Index.Digest = sha256.Sum256(text)
	}
	return workspace.WriteState(t.dir, text)
}

// stateText is the manifest of the version that the index is of, as it is stored.
func stateText(ctx context.Context, repo *workspace.Repo, res *workspace.Result) ([]byte, error) {
	key, err := stateKey(ctx, repo, res.Index.ID)
	if err != nil {
		return nil, err
	}
	o, err := repo.Store.Get(ctx, repo.Prefix+key, blob.GetOptions{})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	text, err := io.ReadAll(io.LimitReader(o.Body, mostState))
	if err == nil && sha256.Sum256(text) != res.Index.Digest {
		err = refusal(api.CodeBadManifest, "", "the manifest of version %s is not the one that was saved", res.Index.ID)
	}
	return text, err
}

// stateKey is where a version's manifest is.
func stateKey(ctx context.Context, repo *workspace.Repo, id string) (string, error) {
	for v, err := range repo.Versions(ctx) {
		if err != nil {
			return "", err
		}
		if v.ID == id && v.Manifest != "" {
			return v.Manifest, nil
		}
		if v.ID == id {
			break
		}
	}
	return id + "/" + workspace.StateFile, nil
}

// is reports whether a state file is the manifest of a version.
func (s *stateFile) is(v workspace.Version) bool {
	return s != nil && v.SHA256 == hex.EncodeToString(s.digest[:])
}
