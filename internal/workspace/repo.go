package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// Repo is the versions of one tree: one prefix of a store.
type Repo struct {
	Store  blob.Store
	Prefix string // empty, or ends with a slash
	// Unconditional says that the store does not keep its promise about conditional writes. Whoever pushes
	// or prunes must then hold a lock that keeps every other writer of this prefix away.
	Unconditional bool
	Limits        Limits
	// Layout is that of versions that are pushed. Every layout is read.
	Layout Layout

	Log      *slog.Logger // nil: silent
	Progress *Progress    // nil: nobody looks
	// Observe is called at the end of each "push" and "pull"; nil: nothing is recorded.
	Observe func(op string, took time.Duration, bytes int64, err error)
	Now     func() time.Time

	step func(what string) // nil, but for tests that stop the process there
}

// at is where a test may stop the process.
func (r *Repo) at(what string) {
	if r.step != nil {
		r.step(what)
	}
}

func (r *Repo) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Repo) log() *slog.Logger {
	return cmp.Or(r.Log, slog.New(slog.DiscardHandler))
}

// logState tells of a state file in the store that was read or written.
func (r *Repo) logState(ctx context.Context, what, key string, size int) {
	r.log().InfoContext(ctx, what, "path", r.Prefix+key, "size", size)
}

// Stats is what one push, pull or restore did.
type Stats struct {
	FilesDownloaded  int     `json:"files_downloaded"`
	FilesUploaded    int     `json:"files_uploaded"`
	FilesDeleted     int     `json:"files_deleted"`
	FilesSkipped     int     `json:"files_skipped"` // unchanged
	BytesTransferred int64   `json:"bytes_transferred"`
	Duration         float64 `json:"duration"` // seconds

	FilesRead int   `json:"files_read"` // opened because they may have changed
	Requests  int64 `json:"requests"`   // sent to the store
}

// LogValue implements slog.LogValuer: each number has its name in every format.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("files_downloaded", s.FilesDownloaded), slog.Int("files_uploaded", s.FilesUploaded),
		slog.Int("files_deleted", s.FilesDeleted), slog.Int("files_skipped", s.FilesSkipped),
		slog.Int64("bytes_transferred", s.BytesTransferred), slog.Float64("duration", s.Duration), slog.Int64("requests", s.Requests))
}

// Progress tells how far a push, a pull or a restore is. It may be read at any time.
type Progress struct {
	Seen            atomic.Int64 // files and folders that were looked at
	Files, AllFiles atomic.Int64
	Bytes, AllBytes atomic.Int64
}

func (p *Progress) saw(entries int) {
	if p != nil {
		p.Seen.Add(int64(entries))
	}
}

func (p *Progress) expect(files int, bytes int64) {
	if p != nil {
		p.AllFiles.Add(int64(files))
		p.AllBytes.Add(bytes)
	}
}

func (p *Progress) did(files int, bytes int64) {
	if p != nil {
		p.Files.Add(int64(files))
		p.Bytes.Add(bytes)
	}
}

// Result is what a push, a pull or a restore came to.
type Result struct {
	Version   string // the version that the tree is now the same as, but for what was changed meanwhile
	New       bool   // the version was made by this push
	Stats     Stats
	Index     *Index    // to keep for the next one
	Skipped   []Skipped // what could not be saved
	Conflicts []Conflict
	Flagged   []string // what was brought here and common tools run by themselves; see Flagged
	State     []byte   // the version's manifest as stored; nil if the tree was the same as that before
}

// Conflict is a file that was changed on both sides and is kept twice.
type Conflict struct {
	Path string `json:"path"`
	Copy string `json:"copy"` // where the other one is
}

// counted counts the requests to a store.
type counted struct {
	blob.Store
	n *atomic.Int64
}

// Unwrap is the store that is counted.
func (c *counted) Unwrap() blob.Store { return c.Store }

// counting returns the repo with a store that counts.
func (r *Repo) counting() (*Repo, *atomic.Int64) {
	n := new(atomic.Int64)
	c := *r
	c.Store = &counted{r.Store, n}
	return &c, n
}

func (c *counted) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	c.n.Add(1)
	return c.Store.Get(ctx, key, o)
}

func (c *counted) Put(ctx context.Context, key string, from io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	c.n.Add(1)
	return c.Store.Put(ctx, key, from, size, o)
}

func (c *counted) Copy(ctx context.Context, from, to string) error {
	c.n.Add(1)
	return c.Store.Copy(ctx, from, to)
}

func (c *counted) List(ctx context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	c.n.Add(1)
	return c.Store.List(ctx, prefix, o)
}

func (c *counted) Delete(ctx context.Context, keys ...string) error {
	c.n.Add(1)
	return c.Store.Delete(ctx, keys...)
}

// observe records the end of a push or a pull. A push that found HEAD moved is no failure: it is tried again.
func (r *Repo) observe(op string, began time.Time, res *Result, err error) {
	if r.Observe == nil || errors.Is(err, ErrMoved) {
		return
	}
	bytes := int64(0)
	if res != nil {
		bytes = res.Stats.BytesTransferred
	}
	r.Observe(op, time.Since(began), bytes, err)
}
