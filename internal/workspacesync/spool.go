package workspacesync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/workspace"
)

// ErrSpoolFull is returned if the spool has no room for a capture.
var ErrSpoolFull = fault.Errorf("capture workspace", api.CodeSyncFailed, "the local spool of saves has no room left")

// Spool keeps captures of workspaces on this machine until they are in the object store. The objects of a capture
// are below {sandbox}/{turn}/. Its entry is written last, so that an unfinished capture is ignored.
type Spool struct {
	Store    blob.Store
	Dir      string // directory of the store; its file system must keep KeepFree bytes free
	MaxBytes int64  // limit for all captures together, in bytes

	mu   sync.Mutex
	used int64
}

// KeepFree is the number of bytes that captures leave free on the disk.
const KeepFree = 512 << 20

// Entry is one capture in the spool.
type Entry struct {
	Turn        string            `json:"turn"`
	Number      int64             `json:"number"` // position in the order of the sandbox's captures
	Incarnation int64             `json:"incarnation"`
	Began       time.Time         `json:"began"`          // start of reading the workspace, by the database's clock
	Busy        bool              `json:"busy,omitempty"` // processes ran in the sandbox at that time
	Capture     workspace.Capture `json:"capture"`
	// Late is set if the capture began after the next turn could start, so that it may contain work of a later
	// turn.
	Late bool `json:"late,omitempty"`
	// Committed is the version in the store that contains the capture; empty before the commit. It differs from the
	// capture's version if the capture was merged with other versions.
	Committed string `json:"committed,omitempty"`
	Beside    bool   `json:"beside,omitempty"` // Committed is beside the newest version; see Repo.CommitBeside
}

const (
	entryKey = "entry"
	indexKey = "index"
)

// NewSpool returns a spool. It adds up the size of the existing captures.
func NewSpool(ctx context.Context, store blob.Store, dir string, maxBytes int64) (*Spool, error) {
	s := &Spool{Store: store, Dir: dir, MaxBytes: maxBytes}
	for e, err := range store.List(ctx, "", blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("read the spool of saves: %w", err)
		}
		s.used += e.Size
	}
	return s, nil
}

func spoolPrefix(sandbox, turn string) string { return sandbox + "/" + turn + "/" }

// stage returns the repo that holds one capture.
func (s *Spool) stage(sandbox, turn string) *workspace.Repo {
	return &workspace.Repo{Store: &capped{s.Store, s}, Prefix: spoolPrefix(sandbox, turn)}
}

// capped is the store of a spool. It refuses writes for which the spool has no room.
type capped struct {
	blob.Store
	spool *Spool
}

func (c *capped) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if !c.spool.reserve(size) {
		return "", ErrSpoolFull
	}
	tag, err := c.Store.Put(ctx, key, r, size, o)
	if err != nil {
		c.spool.release(size)
	}
	return tag, err
}

func (s *Spool) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.MaxBytes || !hasFreeSpace(s.Dir, n) {
		return false
	}
	s.used += n
	return true
}

func (s *Spool) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = max(0, s.used-n)
}

// hasFreeSpace reports whether the disk has room for n more bytes in addition to KeepFree. It returns true if that
// is unknown.
func hasFreeSpace(dir string, n int64) bool {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil {
		return true
	}
	return int64(st.Bavail)*st.Bsize >= n+KeepFree
}

// Used returns the size of all captures in bytes.
func (s *Spool) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// entries returns the captures of a sandbox, oldest first.
func (s *Spool) entries(ctx context.Context, sandbox string) (all []*Entry, err error) {
	for e, err := range s.Store.List(ctx, sandbox+"/", blob.ListOptions{Folders: true}) {
		if err != nil {
			return nil, fmt.Errorf("read the spool of saves: %w", err)
		}
		turn := strings.TrimSuffix(strings.TrimPrefix(e.Key, sandbox+"/"), "/")
		entry, err := s.entry(ctx, sandbox, turn)
		if errors.Is(err, blob.ErrNotFound) {
			continue // the capture is being created or removed
		}
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	slices.SortFunc(all, func(a, b *Entry) int { return int(a.Number - b.Number) })
	return all, nil
}

func (s *Spool) entry(ctx context.Context, sandbox, turn string) (*Entry, error) {
	text, err := s.read(ctx, spoolPrefix(sandbox, turn)+entryKey)
	if err != nil {
		return nil, err
	}
	e := new(Entry)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("read the capture of turn %s: %w", turn, err)
	}
	return e, nil
}

func (s *Spool) read(ctx context.Context, key string) ([]byte, error) {
	o, err := s.Store.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	return io.ReadAll(o.Body)
}

// write stores an entry. The size of entries is not counted in used.
func (s *Spool) write(ctx context.Context, sandbox string, e *Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.Store.Put(ctx, spoolPrefix(sandbox, e.Turn)+entryKey, bytes.NewReader(text), int64(len(text)), blob.PutOptions{})
	return err
}

// index returns the index of a captured tree, for use as the base of the next capture or save.
func (s *Spool) index(ctx context.Context, sandbox string, e *Entry) (*workspace.Index, error) {
	text, err := s.read(ctx, spoolPrefix(sandbox, e.Turn)+indexKey)
	if err != nil {
		return nil, err
	}
	return workspace.DecodeIndex(text)
}

// remove removes a capture, its entry first. With an empty turn it removes all captures of the sandbox.
func (s *Spool) remove(ctx context.Context, sandbox, turn string) error {
	prefix := sandbox + "/"
	if turn != "" {
		prefix = spoolPrefix(sandbox, turn)
	}
	var keys []string
	var freed int64
	for e, err := range s.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("remove a capture: %w", err)
		}
		if strings.HasSuffix(e.Key, "/"+entryKey) {
			keys = slices.Insert(keys, 0, e.Key)
			continue
		}
		keys, freed = append(keys, e.Key), freed+e.Size
	}
	if len(keys) == 0 {
		return nil
	}
	if err := s.Store.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("remove a capture: %w", err)
	}
	s.release(freed)
	return nil
}
