package workspace

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
)

// stateFile is the state file of a directory: the manifest of the version that the directory was last equal to.
type stateFile struct {
	text   []byte
	digest [sha256.Size]byte
}

// mostState is the maximum size of a state file in bytes.
const mostState = 1 << 30

// readStateFile reads the state file of a directory. It returns nil if there is none.
func readStateFile(dir string) (*stateFile, error) {
	path := filepath.Join(dir, StateFile)
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
	return refuse(api.CodeSpecialFile, "Move it away, and type the same again.", "%s is not a plain file of a usual size", path)
}

// Base returns the version that the directory was last equal to, which is the version of its state file. The index
// adds the stamps of the files; it is used only if its digest matches the state file. A nil result means that the
// version is unknown, so that nothing will be deleted.
func (t *LocalDir) Base(ctx context.Context, repo *Repo) (*Index, error) {
	if t.state == nil {
		return nil, nil
	}
	index, err := t.index()
	if err == nil && index != nil && index.Digest == t.state.digest {
		return index, nil
	}
	m, err := Decode(t.state.text)
	switch {
	case err != nil && newerFormat(t.state.text):
		return nil, fmt.Errorf("read the state file %s: %w", filepath.Join(t.Path, StateFile), err)
	case err != nil:
		t.warn(fmt.Sprintf("the state file cannot be read, so that everything is compared anew: %s", err.Error()))
		return nil, nil
	}
	return t.find(ctx, repo, m.ID)
}

// find returns the stored version whose manifest equals the state file byte by byte, or nil.
func (t *LocalDir) find(ctx context.Context, repo *Repo, id string) (*Index, error) {
	t.elsewhere = true
	for v, err := range repo.Versions(ctx) {
		t.elsewhere = false
		switch {
		case err != nil:
			return nil, err
		case t.state.is(v):
			return repo.BaseOf(ctx, v.ID)
		case v.ID == id:
			t.warn(fmt.Sprintf("the state file is not what was saved as version %s, so that everything is compared anew", id))
			return nil, nil
		}
	}
	return nil, nil
}

// newerFormat reports whether a state file has a major version that this program does not know. Such a file must
// not be overwritten.
func newerFormat(text []byte) bool {
	var state struct{ Version string }
	if json.Unmarshal(text, &state) != nil {
		return false
	}
	major, _, _ := strings.Cut(state.Version, ".")
	ours, _, _ := strings.Cut(FormatVersion, ".")
	return major != ours && major != "" && strings.Trim(major, "0123456789") == ""
}

// Record stores the version that the directory now equals. It writes the state file first, because the state file
// decides the next base. The index only makes the next sync fast.
func (t *LocalDir) Record(ctx context.Context, repo *Repo, res *Result) error {
	if t.state == nil || t.state.digest != res.Index.Digest {
		if err := t.writeState(ctx, repo, res); err != nil {
			return fmt.Errorf("it is done, but the state file could not be written, so that the next sync compares everything anew: %w", err)
		}
	}
	if err := res.Index.Save(t.indexPath()); err != nil {
		t.warn(fmt.Sprintf("the index could not be written, so that the next sync reads every file: %s", err.Error()))
	}
	return nil
}

// writeState writes the state file: res.State if it belongs to the index's version, otherwise the manifest from the
// store. It writes nothing if that version has no stored manifest, as some versions of other tools.
func (t *LocalDir) writeState(ctx context.Context, repo *Repo, res *Result) (err error) {
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
	return WriteState(t.Dir, text)
}

// stateText reads the stored manifest of the index's version and verifies its checksum.
func stateText(ctx context.Context, repo *Repo, res *Result) ([]byte, error) {
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
		err = refuse(api.CodeBadManifest, "", "the manifest of version %s is not the one that was saved", res.Index.ID)
	}
	return text, err
}

// stateKey returns the key of a version's manifest.
func stateKey(ctx context.Context, repo *Repo, id string) (string, error) {
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
	return id + "/" + StateFile, nil
}

// is reports whether the state file is the manifest of version v. A nil state file is the manifest of no version.
func (s *stateFile) is(v Version) bool {
	return s != nil && v.SHA256 == hex.EncodeToString(s.digest[:])
}
