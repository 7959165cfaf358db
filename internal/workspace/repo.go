// Package workspace saves a directory tree as versions in an object store and restores them.
//
// A version is described by a [Manifest], stored as {prefix}{version}/.sandbox-state. It lists every file with its
// checksums, size, times, mode and the location of its bytes. Small files are packed together; each large file has
// a separate object. Bytes that an earlier version stored are referenced and not uploaded again. The only object
// that changes is {prefix}HEAD. A conditional write of HEAD commits a version: versions that HEAD does not lead to
// do not exist.
//
// [Repo] is one prefix of a store with [Repo.Push], [Repo.Pull], [Repo.Restore], [Repo.Versions], [Repo.Prune] and
// [Repo.Verify]. An [Index] caches the last synced version with the times and inodes of all files, so that the next
// operation does not open unchanged files. [Compare] is a pure function. It decides the action for every path of
// three trees: the last synced version, the tree, and the store.
//
// In the [Plain] layout every file of a version is an object under its path, as other tools expect. This package
// can read versions of such tools, which have no HEAD, and [Repo.Export] writes such versions.
//
// A tree, a manifest and an index may come from an attacker. Paths are checked when they are read, links are never
// followed out of the tree, and an incomplete manifest deletes nothing. Files that change during a pull are kept,
// an interrupted restore can be repeated, and an unreadable file is not treated as deleted.
//
// Memory: a push holds at most five packs of 12 MiB, 4 MiB for each of up to eight readers, and the store's buffers
// for four large files. A restore holds 4 MiB for each of eight streams. In addition each entry of the tree takes
// about a kilobyte; [Limits] bound the number of entries.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"

	"github.com/berthdev/berth/internal/blob"
)

// Repo holds the versions of one tree. It is one prefix of a store.
type Repo struct {
	Store  blob.Store
	Prefix string // empty, or ends with a slash
	// Unconditional is set if the store has no conditional writes. Callers that push or prune must then hold a lock
	// that excludes all other writers of this prefix.
	Unconditional bool
	Limits        Limits
	// Layout is the layout of new versions. Every layout can be read.
	Layout Layout

	Log      *slog.Logger // nil: no log
	Progress *Progress    // nil: progress is not reported
	// Observe is called at the end of each "push" and "pull". It may be nil.
	Observe func(op string, took time.Duration, bytes int64, err error)
	Now     func() time.Time // nil: time.Now

	step func(what string) // test hook that at calls; nil outside tests
}

// at marks a named point of the code. Tests stop the process at such points through r.step.
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

// logState logs that a state file was read or written.
func (r *Repo) logState(ctx context.Context, what, key string, size int) {
	r.log().InfoContext(ctx, what, "path", r.Prefix+key, "size", size)
}

// Stats describes the work of one push, pull or restore.
type Stats struct {
	FilesDownloaded  int     `json:"files_downloaded"`
	FilesUploaded    int     `json:"files_uploaded"`
	FilesDeleted     int     `json:"files_deleted"`
	FilesSkipped     int     `json:"files_skipped"` // unchanged files
	BytesTransferred int64   `json:"bytes_transferred"`
	Duration         float64 `json:"duration"` // seconds

	FilesRead int   `json:"files_read"` // files opened because they may have changed
	Requests  int64 `json:"requests"`   // requests to the store
}

// LogValue implements slog.LogValuer.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("files_downloaded", s.FilesDownloaded), slog.Int("files_uploaded", s.FilesUploaded),
		slog.Int("files_deleted", s.FilesDeleted), slog.Int("files_skipped", s.FilesSkipped),
		slog.Int64("bytes_transferred", s.BytesTransferred), slog.Float64("duration", s.Duration), slog.Int64("requests", s.Requests))
}

// Progress counts the work of a push, a pull or a restore that is running. It is safe for concurrent use.
type Progress struct {
	Seen            atomic.Int64 // number of scanned entries
	Files, AllFiles atomic.Int64
	Bytes, AllBytes atomic.Int64
}

func (p *Progress) addSeen(entries int) {
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

func (p *Progress) addDone(files int, bytes int64) {
	if p != nil {
		p.Files.Add(int64(files))
		p.Bytes.Add(bytes)
	}
}

// Result is the result of a push, a pull or a restore.
type Result struct {
	Version   string // id of the version that the tree equals, except for later changes
	New       bool   // this push made the version
	Stats     Stats
	Index     *Index    // base of the next operation
	Skipped   []Skipped // entries that could not be saved
	Conflicts []Conflict
	Flagged   []string // restored files that common tools execute without asking; see RunsByItself
	State     []byte   // stored manifest of the version; nil if the tree already equalled the version
}

// Conflict is a file that was changed on both sides; both are kept.
type Conflict struct {
	Path string `json:"path"`
	Copy string `json:"copy"` // path of the second copy
}

// counted is a store that counts its calls in n.
type counted struct {
	blob.Store
	n *atomic.Int64
}

// Unwrap returns the counted store.
func (c *counted) Unwrap() blob.Store { return c.Store }

// counting returns a copy of the repo that counts its requests in the returned counter.
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

// observe calls Observe at the end of a push or a pull. It ignores ErrMoved, which is not a failure because callers
// then pull and retry.
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

// flow passes on a reader and reports its bytes as progress. If a file is read again, its bytes are not reported
// twice.
type flow struct {
	io.Reader
	p        *Progress
	size     int64
	reported *int64
}

// Read implements io.Reader.
func (f *flow) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	more := min(int64(n), f.size-*f.reported)
	*f.reported += more
	f.p.addDone(0, more)
	return n, err
}

// finished reports the end of a file, and those of its bytes that were not reported yet.
func (p *Progress) finished(size int64, reported *int64) {
	p.addDone(1, size-*reported)
	*reported = 0
}

func tooLarge(format string, args ...any) error {
	return fault.Errorf("sync workspace", api.CodeWorkspaceTooLarge, format, args...)
}

// unanswered wraps an error of the store that ended a sync before any change. It returns other errors unchanged.
func unanswered(op string, err error, how string) error {
	if !strings.HasPrefix(string(fault.CodeOf(err)), "object_store_") {
		return err
	}
	return stopped(op, api.CodeSyncFailed, err, "%s", how)
}

// stopped wraps the error of an interrupted sync with its progress. An error of the store keeps its code, because
// the hint for that code fits best.
func stopped(op string, code api.Code, err error, format string, args ...any) error {
	if is := fault.CodeOf(err); strings.HasPrefix(string(is), "object_store_") || is == api.CodeConflict || is == api.CodeBadManifest {
		code = is
	}
	return fault.Errorf(op, code, format+": %w", append(args, err)...)
}
