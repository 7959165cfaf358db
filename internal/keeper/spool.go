package keeper

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
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// ErrSpoolFull is a capture for which the spool has no room.
var ErrSpoolFull = sandbox.Errorf("capture workspace", api.CodeSyncFailed, "the local spool of saves has no room left")

// Spool keeps captures of workspaces on this machine until they are in the object store. The objects of a
// capture are below {sandbox}/{turn}/; its entry is written last, so that half a capture is none.
type Spool struct {
	Store blob.Store
	Dir   string // whose file system must keep KeepFree bytes free
	Most  int64  // bytes of all captures together

	mu   sync.Mutex
	used int64
}

// KeepFree is how much of the disk captures leave to others.
const KeepFree = 512 << 20

// Entry is one capture in the spool.
type Entry struct {
	Turn        string            `json:"turn"`
	Number      int64             `json:"number"` // the order of a sandbox's captures
	Incarnation int64             `json:"incarnation"`
	Began       time.Time         `json:"began"`          // when the workspace began to be read, by the database's clock
	Busy        bool              `json:"busy,omitempty"` // processes ran then
	Capture     workspace.Capture `json:"capture"`
	// Late says that the capture was made after the turn's place was free, so that it may have work of a later turn.
	Late bool `json:"late,omitempty"`
	// Committed is the version in the store that has what was captured; empty: none yet. It is another one than
	// the capture's where saves were merged.
	Committed string `json:"committed,omitempty"`
	Beside    bool   `json:"beside,omitempty"` // Committed is beside the newest version, see Repo.CommitBeside
}

const (
	entryKey = "entry"
	indexKey = "index"
)

// NewSpool counts what is there from before.
func NewSpool(ctx context.Context, store blob.Store, dir string, most int64) (*Spool, error) {
	s := &Spool{Store: store, Dir: dir, Most: most}
	for e, err := range store.List(ctx, "", blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("read the spool of saves: %w", err)
		}
		s.used += e.Size
	}
	return s, nil
}

func spoolPrefix(sandbox, turn string) string { return sandbox + "/" + turn + "/" }

// stage is the repo in which one capture is made.
func (s *Spool) stage(sandbox, turn string) *workspace.Repo {
	return &workspace.Repo{Store: &capped{s.Store, s}, Prefix: spoolPrefix(sandbox, turn)}
}

// capped refuses what the spool has no room for.
type capped struct {
	blob.Store
	spool *Spool
}

func (c *capped) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if !c.spool.take(size) {
		return "", ErrSpoolFull
	}
	tag, err := c.Store.Put(ctx, key, r, size, o)
	if err != nil {
		c.spool.give(size)
	}
	return tag, err
}

func (s *Spool) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.Most || !roomOn(s.Dir, n) {
		return false
	}
	s.used += n
	return true
}

func (s *Spool) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = max(0, s.used-n)
}

// roomOn reports whether the disk has room for n bytes more. A disk that cannot be asked has.
func roomOn(dir string, n int64) bool {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil {
		return true
	}
	return int64(st.Bavail)*st.Bsize >= n+KeepFree
}

// Used is how many bytes the captures have.
func (s *Spool) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// entries are the captures of a sandbox, oldest first.
func (s *Spool) entries(ctx context.Context, sandbox string) (all []*Entry, err error) {
	for e, err := range s.Store.List(ctx, sandbox+"/", blob.ListOptions{Folders: true}) {
		if err != nil {
			return nil, fmt.Errorf("read the spool of saves: %w", err)
		}
		turn := strings.TrimSuffix(strings.TrimPrefix(e.Key, sandbox+"/"), "/")
		entry, err := s.entry(ctx, sandbox, turn)
		if errors.Is(err, blob.ErrNotFound) {
			continue // it is being made, or removed
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

// write makes an entry what it is now. Its few bytes are not counted.
func (s *Spool) write(ctx context.Context, sandbox string, e *Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.Store.Put(ctx, spoolPrefix(sandbox, e.Turn)+entryKey, bytes.NewReader(text), int64(len(text)), blob.PutOptions{})
	return err
}

// index is what a captured tree is compared with next.
func (s *Spool) index(ctx context.Context, sandbox string, e *Entry) (*workspace.Index, error) {
	text, err := s.read(ctx, spoolPrefix(sandbox, e.Turn)+indexKey)
	if err != nil {
		return nil, err
	}
	return workspace.DecodeIndex(text)
}

// remove removes a capture, its entry first, or those of the whole sandbox for an empty turn.
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
	s.give(freed)
	return nil
}
