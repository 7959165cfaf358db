package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// PushOptions configure a push.
type PushOptions struct {
	Ignore     *Ignore
	MaxEntries int    // zero means the repo's limit
	Note       string // text for people; cut to maxNote bytes
	// Writer is a unique and permanent name of the saved tree; empty means no name. Sync uses it to recognize a
	// version of this tree that was committed but not recorded in the index.
	Writer string
	// Version is the id of the new version. Empty means an id made from the time.
	Version string
	// AllowMassDelete applies to Sync. It permits merged versions to delete more than half of the tree.
	AllowMassDelete bool
	// Exists is called after the tree was read and before the version is made. It returns an error if the tree is
	// being removed: files may then be missing, and the push ends. It may be nil.
	Exists func() error
}

// maxNote limits the length of a version's note in bytes, because HEAD contains many notes.
const maxNote = 500

// ErrMoved is returned if the store has newer versions than the base. The caller must pull first.
var ErrMoved = fault.Errorf("push", api.CodeSyncConflict, "the store has newer versions; pull first")

// Push saves the tree as a new version. Base is the last synced version, or nil if unknown. A push without a base
// is possible only if the store has no version. If nothing changed, no version is made. An unreadable file keeps
// its entry from the base.
func (r *Repo) Push(ctx context.Context, t Tree, base *Index, o PushOptions) (*Result, error) {
	began := time.Now()
	r, requests := r.counting()
	p := &push{Repo: r, o: o, base: base, tree: t}
	res, err := p.run(ctx)
	r.observe("push", began, res, err)
	if err != nil {
		return nil, err
	}
	res.Stats.Requests, res.Stats.Duration = requests.Load(), time.Since(began).Seconds()
	r.log().InfoContext(ctx, "workspace pushed", "version", res.Version, "new", res.New, "stats", res.Stats)
	return res, nil
}

// push is the state of a running push.
type push struct {
	*Repo
	o       PushOptions
	tree    Tree
	base    *Index
	head    *Head
	headTag blob.Tag
	scan    *ScanResult
	scanned int64

	next   Manifest
	stamps []Stamp
	stats  Stats
	pack   *packer
}

func (p *push) run(ctx context.Context) (*Result, error) {
	if p.base == nil {
		p.base = new(Index)
	}
	if err := p.readHeadAndTree(ctx); err != nil {
		return nil, unanswered("push", err, "nothing was sent, and a retry begins again")
	}
	if err := p.setID(); err != nil {
		return nil, err
	}
	if err := p.reserve(ctx); err != nil {
		return nil, err
	}
	p.pack = newPacker(ctx, p)
	defer p.pack.stop()
	if err := p.gather(); err != nil {
		return nil, p.failed(ctx, err)
	}
	if p.unchanged() {
		return p.result(p.base.ID, p.base.Digest, false), nil
	}
	return p.commit(ctx)
}

// readHeadAndTree reads HEAD and scans the tree at the same time. It returns ErrMoved if base is not the newest version.
func (p *push) readHeadAndTree(ctx context.Context) error {
	g, scanning := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		p.head, p.headTag, err = p.readHead(ctx)
		if errors.Is(err, errNoHead) {
			return p.findForeignVersions(ctx)
		}
		return err
	})
	g.Go(func() error { return p.scanTree(scanning) })
	if err := g.Wait(); err != nil {
		return err
	}
	if p.head == nil {
		p.base = new(Index) // the store lost the version of the base: everything is uploaded
		return nil
	}
	if p.base.ID == "" || p.head.newest().ID != p.base.ID || p.head.Lineage != p.base.Lineage {
		return ErrMoved
	}
	return nil
}

// scanTree scans the tree within the limits.
func (p *push) scanTree(ctx context.Context) (err error) {
	p.scanned = time.Now().UnixNano()
	limits := p.Limits
	if p.o.MaxEntries > 0 {
		limits.Entries = p.o.MaxEntries
	}
	p.scan, err = Scan(ctx, p.tree, ScanOptions{Ignore: p.o.Ignore, MaxEntries: limits.entries(), MaxBytes: limits.bytes(), Expect: len(p.base.Entries), Progress: p.Progress})
	return err
}

// largest returns a text that names the largest files of the tree.
func (p *push) largest() string { return largest(p.scan.Entries) }

// findForeignVersions returns ErrMoved if another tool has written a version that is not the base.
func (p *push) findForeignVersions(ctx context.Context) error {
	others, err := p.foreignVersions(ctx, 1)
	if err == nil && len(others) > 0 && others[0].ID != p.base.ID {
		err = ErrMoved
	}
	return err
}

// setID sets the id, lineage, sequence and time of the next version.
func (p *push) setID() error {
	m := &p.next
	m.At, m.Layout = p.now().UTC(), p.Layout
	m.ID, m.Parent = p.o.Version, p.base.ID
	if m.ID == "" {
		m.ID = after(m.Parent, m.At)
	}
	m.Lineage, m.Sequence = p.base.Lineage, p.base.Sequence+1
	if m.Lineage == "" {
		m.Lineage = uuid.NewString()
	}
	if p.Layout != Packed && p.Layout != Plain {
		return fault.Errorf("push", api.CodeInvalidRequest, "there is no layout %q", clip(string(p.Layout)))
	}
	return checkVersion(m.ID)
}

// gather builds the entries of the next version. Unchanged files come from the base; other files are read from the
// tree.
func (p *push) gather() error {
	seen := p.scan.Entries
	p.next.Entries, p.stamps = make([]Entry, len(seen)), make([]Stamp, len(seen))
	var dirty []int
	p.base.match(seen, func(i, at int) {
		e := &p.next.Entries[i]
		*e, p.stamps[i] = seen[i].entry(), seen[i].Stamp
		if e.Kind != File {
			return
		}
		if at >= 0 && p.base.clean(at, &seen[i]) {
			if place, ok := p.pack.reuse(&p.base.Entries[at]); ok {
				*e = p.base.Entries[at]
				e.At = place
				return
			}
		}
		dirty = append(dirty, i)
	})
	if err := p.readAll(dirty); err != nil {
		return err
	}
	if p.o.Exists != nil {
		if err := p.o.Exists(); err != nil {
			return err
		}
	}
	p.drop()
	p.keepUnreadable()
	return p.pack.flush()
}

// drop removes the empty entries of files that vanished or could not be read.
func (p *push) drop() {
	kept := 0
	for i := range p.next.Entries {
		if p.next.Entries[i].Kind == 0 {
			continue
		}
		if kept < i {
			p.next.Entries[kept], p.stamps[kept] = p.next.Entries[i], p.stamps[i]
		}
		kept++
	}
	p.next.Entries, p.stamps = p.next.Entries[:kept], p.stamps[:kept]
}

// unchanged reports whether the tree still equals the base.
func (p *push) unchanged() bool {
	return p.base.ID != "" && slices.EqualFunc(p.base.Entries, p.next.Entries, func(a, b Entry) bool {
		return a.Path == b.Path && alike(&a, &b)
	})
}

// commit stores the manifest while the last packs are uploaded, and then moves HEAD to the new version.
func (p *push) commit(ctx context.Context) (*Result, error) {
	m := &p.next
	m.Packs = p.pack.packs
	if err := checkEntries(m.Entries, m.Packs); err != nil {
		return nil, err // an invalid manifest is never stored
	}
	text := m.Encode()
	if len(text) > maxManifest {
		return nil, tooLarge("the list of its files has %d bytes, more than %d", len(text), maxManifest)
	}
	line := p.historyEntry(text)
	if err := p.pack.copyAll(); err != nil {
		return nil, p.failed(ctx, err)
	}
	var g errgroup.Group
	g.Go(func() (err error) {
		line.Manifest, err = p.storeManifest(ctx, text)
		return err
	})
	g.Go(p.pack.wait)
	if err := g.Wait(); err != nil {
		return nil, p.failed(ctx, err)
	}
	tag, err := p.moveHead(ctx, line)
	if err != nil {
		return nil, err
	}
	p.headTag = tag
	res := p.result(m.ID, line.digest(), true)
	res.State = text
	return res, nil
}

// historyEntry returns the history entry of the new version.
func (p *push) historyEntry(manifest []byte) Version {
	digest := sha256.Sum256(manifest)
	m := &p.next
	v := Version{ID: m.ID, Sequence: m.Sequence, Parent: m.Parent, At: m.At, SHA256: hex.EncodeToString(digest[:]),
		Note: fault.Clip(p.o.Note, maxNote), Writer: p.o.Writer, Layout: m.Layout}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File {
			v.Files, v.Bytes = v.Files+1, v.Bytes+e.Size
		}
	}
	return v
}

// storeManifest stores the manifest. It returns the manifest's key, or "" for the default key. A retry may use the
// id of an interrupted push, but not the key of its manifest: the interrupted push may still be running and must
// find its own manifest.
func (p *push) storeManifest(ctx context.Context, text []byte) (key string, err error) {
	id := p.next.ID
	_, err = p.put(ctx, id+"/"+StateFile, text, blob.PutOptions{IfAbsent: p.o.Version != "" && !p.Unconditional})
	if errors.Is(err, blob.ErrPrecondition) {
		var taken bool
		if taken, err = p.committed(ctx, id); err == nil && (taken || p.Layout == Plain) {
			return "", nameTaken(id)
		}
		if err == nil {
			key = id + "/" + StateFile + "-" + newID()
			_, err = p.put(ctx, key, text, blob.PutOptions{})
		}
	}
	if err != nil {
		return "", fmt.Errorf("store the manifest of version %s: %w", id, err)
	}
	p.logState(ctx, "state file written", cmp.Or(key, id+"/"+StateFile), len(text))
	return key, nil
}

// reserve reserves a requested id in the plain layout. There the files are stored under the id, and must not
// overwrite the files of another version.
func (p *push) reserve(ctx context.Context) error {
	id := p.o.Version
	if id == "" || p.Layout != Plain {
		return nil
	}
	taken, err := p.committed(ctx, id)
	if err == nil && !taken {
		_, err = p.put(ctx, namesFolder+id, nil, blob.PutOptions{IfAbsent: !p.Unconditional})
	}
	if taken || errors.Is(err, blob.ErrPrecondition) {
		return nameTaken(id)
	}
	return err
}

// namesFolder is the folder with one object for each id that reserve has reserved.
const namesFolder = "names/"

func nameTaken(id string) error {
	e := fault.Errorf("push", api.CodeConflict, "there is a version %s already, or a push that has begun to write it", id)
	e.Hint = "Choose another name for the version."
	return e
}

// committed reports whether the history has a version with the id.
func (p *push) committed(ctx context.Context, id string) (is bool, err error) {
	if p.head != nil {
		p.walk(ctx, p.head, func(v Version, failed error) bool {
			is, err = failed == nil && v.ID == id, failed
			return !is && err == nil
		})
	}
	return is, err
}

// moveHead writes HEAD with the new version first, which commits it.
func (p *push) moveHead(ctx context.Context, line Version) (blob.Tag, error) {
	next := Head{Format: 1, Lineage: p.next.Lineage, Sequence: p.next.Sequence, Versions: []Version{line}}
	if p.head != nil {
		next.Versions, next.Log, next.Prunes = append(next.Versions, p.head.Versions...), p.head.Log, p.head.Prunes
	}
	tag, err := p.writeHead(ctx, &next, p.headTag)
	if err == nil {
		return tag, nil
	}
	if tag, ok := p.headWasMoved(context.WithoutCancel(ctx), line, err); ok {
		return tag, nil
	}
	if errors.Is(err, blob.ErrPrecondition) {
		return "", ErrMoved
	}
	return "", stopped("push", api.CodeSyncFailed, err, "version %s was stored, and it is not known whether it was committed; a retry finds out and resumes", p.next.ID)
}

// headWasMoved reports whether a failed write of HEAD took effect. Two cases exist: the reply was lost and the
// client's retry was refused, or the store wrote HEAD but could not make it durable, for example because of a
// failed disk sync. In the second case HEAD is written again, unless another writer has changed it since.
func (p *push) headWasMoved(ctx context.Context, line Version, failed error) (blob.Tag, bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	is, tag, err := p.readHead(ctx)
	if err != nil || !is.has(line) {
		return "", false
	}
	if !errors.Is(failed, blob.ErrPrecondition) && is.newest().ID == line.ID {
		var again blob.Tag
		switch again, err = p.writeHead(ctx, is, tag); {
		case err == nil:
			tag = again
		case !errors.Is(err, blob.ErrPrecondition):
			return "", false
		}
	}
	return tag, true
}

// askTimeout limits the check after a failed write of HEAD.
const askTimeout = 10 * time.Second

// has reports whether HEAD lists the version. Newer versions may precede it.
func (h *Head) has(v Version) bool {
	return slices.ContainsFunc(h.Versions, func(is Version) bool { return is.ID == v.ID && is.SHA256 == v.SHA256 })
}

func (p *push) result(version string, digest [32]byte, fresh bool) *Result {
	if !fresh {
		p.next = p.base.Manifest // the version is the same; only the stamps are new
	}
	p.stats.tally(p.base.Entries, p.next.Entries)
	slices.SortFunc(p.scan.Skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	index := &Index{Manifest: p.next, HeadTag: p.headTag, Digest: digest, Stamps: p.stamps, Scanned: p.scanned}
	if !fresh && p.stats.FilesRead == 0 && slices.Equal(p.stamps, p.base.Stamps) {
		index = p.base // no new data for the index
	}
	return &Result{Version: version, New: fresh, Stats: p.stats, Skipped: p.scan.Skipped, Index: index}
}

// tally counts files of two sorted lists: new or changed files, unchanged files, and removed files and links.
func (s *Stats) tally(was, is []Entry) {
	s.FilesUploaded, s.FilesSkipped, s.FilesDeleted = 0, 0, 0
	for len(was) > 0 || len(is) > 0 {
		path := least(was, is)
		switch a, b := take(&was, path), take(&is, path); {
		case b == nil && a.Kind != Folder:
			s.FilesDeleted++
		case b == nil || b.Kind != File:
		case a != nil && a.content(b):
			s.FilesSkipped++
		default:
			s.FilesUploaded++
		}
	}
}

// failed adds the number of sent files to the error of an interrupted push.
func (p *push) failed(ctx context.Context, err error) error {
	if cause := context.Cause(p.pack.ctx); cause != nil && ctx.Err() == nil {
		err = cause // the first failure caused the others
	}
	if fault.CodeOf(err) == api.CodeWorkspaceTooLarge {
		return err
	}
	from := "the beginning"
	if p.base.ID != "" {
		from = "version " + p.base.ID
	}
	return stopped("push", api.CodeSyncFailed, err, "%d of %d changed files were sent or on their way; nothing was committed, and a retry resumes from %s", p.stats.FilesUploaded, p.stats.FilesRead, from)
}
