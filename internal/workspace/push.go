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
	"github.com/berthdev/berth/internal/sandbox"
)

// PushOptions say how to save.
type PushOptions struct {
	Ignore     *Ignore
	MaxEntries int    // zero: the repo's limit
	Note       string // for people; cut if it is long
	// Writer names the one tree that is saved, in all its life and by nobody else; empty: it has no name. By it a
	// Sync knows a version of its own that it had no time to remember, and does not take it for somebody else's.
	Writer string
	// Version names the new version; empty: its time does.
	Version string
	// AllowMassDelete is for Sync: it lets what others saved delete more than half of the tree.
	AllowMassDelete bool
	// Exists is called after the tree was read and before a version of it is made; nil: nothing is. Its error says
	// that the tree was being removed during the push, and ends the push: what was read may lack files.
	Exists func() error
}

// maxNote bounds what a version's line may say: HEAD has many of them.
const maxNote = 500

// ErrMoved is a push onto a store that somebody else has pushed to since: pull first.
var ErrMoved = sandbox.Errorf("push", api.CodeSyncConflict, "the store has a version that this tree was never the same as")

// Push saves the tree as a new version. Base is what the tree was last the same as, nil if that is not
// known; a push without a base is only possible where there is no version yet. When nothing has changed
// there is no new version. What cannot be read stays in the version as it was in the base.
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

// push is one push under way.
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
	if err := p.look(ctx); err != nil {
		return nil, unanswered("push", err, "nothing was sent, and a retry begins again")
	}
	if err := p.name(); err != nil {
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

// look reads HEAD and the tree at the same time.
func (p *push) look(ctx context.Context) error {
	g, scanning := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		p.head, p.headTag, err = p.readHead(ctx)
		if errors.Is(err, errNoHead) {
			return p.lookForOthers(ctx)
		}
		return err
	})
	g.Go(func() error { return p.scanTree(scanning) })
	if err := g.Wait(); err != nil {
		return err
	}
	if p.head == nil {
		p.base = new(Index) // whatever this tree was the same as is gone: everything is sent
		return nil
	}
	if p.base.ID == "" || p.head.newest().ID != p.base.ID || p.head.Lineage != p.base.Lineage {
		return ErrMoved
	}
	return nil
}

// scanTree reads what the tree has.
func (p *push) scanTree(ctx context.Context) (err error) {
	p.scanned = time.Now().UnixNano()
	limits := p.Limits
	if p.o.MaxEntries > 0 {
		limits.Entries = p.o.MaxEntries
	}
	p.scan, err = Scan(ctx, p.tree, ScanOptions{Ignore: p.o.Ignore, MaxEntries: limits.entries(), MaxBytes: limits.bytes(), Expect: len(p.base.Entries), Progress: p.Progress})
	return err
}

// lookForOthers refuses a first push where other tools have put versions that this tree never had.
func (p *push) lookForOthers(ctx context.Context) error {
	others, err := p.strangers(ctx, 1)
	if err == nil && len(others) > 0 && others[0].ID != p.base.ID {
		err = ErrMoved
	}
	return err
}

// name gives the next version its id and its place in the history.
func (p *push) name() error {
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
		return sandbox.Errorf("push", api.CodeInvalidRequest, "there is no layout %q", clip(string(p.Layout)))
	}
	return checkVersion(m.ID)
}

// gather makes the entries of the next version: those that are clean from the base, others from the tree.
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
			if place, ok := p.pack.from(&p.base.Entries[at]); ok {
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
	p.carry()
	return p.pack.flush()
}

// drop takes out what was gone, or could not be read, when it was to be.
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

// unchanged reports whether the tree is still what the base says.
func (p *push) unchanged() bool {
	return p.base.ID != "" && slices.EqualFunc(p.base.Entries, p.next.Entries, func(a, b Entry) bool {
		return a.Path == b.Path && alike(&a, &b)
	})
}

// commit stores the manifest beside the last packs, and then moves HEAD.
func (p *push) commit(ctx context.Context) (*Result, error) {
	m := &p.next
	m.Packs = p.pack.packs
	if err := checkEntries(m.Entries, m.Packs); err != nil {
		return nil, err // what could not be read back is not saved
	}
	text := m.Encode()
	if len(text) > maxManifest {
		return nil, tooLarge("the list of its files has %d bytes, more than %d", len(text), maxManifest)
	}
	line := p.line(text)
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
	tag, err := p.move(ctx, line)
	if err != nil {
		return nil, err
	}
	p.headTag = tag
	res := p.result(m.ID, line.digest(), true)
	res.State = text
	return res, nil
}

// line is the version's line of the history.
func (p *push) line(manifest []byte) Version {
	digest := sha256.Sum256(manifest)
	m := &p.next
	v := Version{ID: m.ID, Sequence: m.Sequence, Parent: m.Parent, At: m.At, SHA256: hex.EncodeToString(digest[:]), Note: clipNote(p.o.Note), Writer: p.o.Writer, Layout: m.Layout}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File {
			v.Files, v.Bytes = v.Files+1, v.Bytes+e.Size
		}
	}
	return v
}

func clipNote(note string) string {
	if len(note) > maxNote {
		return strings.ToValidUTF8(note[:maxNote], "") + "…"
	}
	return note
}

// storeManifest stores the manifest and returns its key if that is not the usual one. A name that a push
// which never came to its end has left behind is used again, but not its manifest's: that push may only
// be slow, and must find what it wrote.
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

// reserve takes the name that somebody gave a version. In the plain layout its files are written under it,
// and must not be written over those of another.
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

// namesFolder has an object for every name that somebody gave a version of the plain layout.
const namesFolder = "names/"

func nameTaken(id string) error {
	e := sandbox.Errorf("push", api.CodeConflict, "there is a version %s already, or a push that has begun to write it", id)
	e.Hint = "Choose another name for the version."
	return e
}

// committed reports whether the history has a version of that name.
func (p *push) committed(ctx context.Context, id string) (is bool, err error) {
	if p.head != nil {
		p.walk(ctx, p.head, func(v Version, failed error) bool {
			is, err = failed == nil && v.ID == id, failed
			return !is && err == nil
		})
	}
	return is, err
}

// move makes the new version what HEAD is.
func (p *push) move(ctx context.Context, line Version) (blob.Tag, error) {
	next := Head{Format: 1, Lineage: p.next.Lineage, Sequence: p.next.Sequence, Versions: []Version{line}}
	if p.head != nil {
		next.Versions, next.Log, next.Prunes = append(next.Versions, p.head.Versions...), p.head.Log, p.head.Prunes
	}
	tag, err := p.writeHead(ctx, &next, p.headTag)
	if err == nil {
		return tag, nil
	}
	if tag, ok := p.arrived(context.WithoutCancel(ctx), line, err); ok {
		return tag, nil
	}
	if errors.Is(err, blob.ErrPrecondition) {
		return "", ErrMoved
	}
	return "", stopped("push", api.CodeSyncFailed, err, "version %s was stored, and it is not known whether it was committed; a retry finds out and resumes", p.next.ID)
}

// arrived reports whether a write of HEAD that failed was done all the same: the answer may have been lost,
// and its repetition refused. One that was done and failed, as on a disk that could not be synced, may
// not last: it is written once more, unless somebody else has written on top of it.
func (p *push) arrived(ctx context.Context, line Version, failed error) (blob.Tag, bool) {
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

// askTimeout bounds the question what became of a write.
const askTimeout = 10 * time.Second

// has reports whether HEAD leads to a version, with somebody else's before it perhaps.
func (h *Head) has(v Version) bool {
	return slices.ContainsFunc(h.Versions, func(is Version) bool { return is.ID == v.ID && is.SHA256 == v.SHA256 })
}

func (p *push) result(version string, digest [32]byte, fresh bool) *Result {
	if !fresh {
		p.next = p.base.Manifest // with what is known of its files now
	}
	p.stats.tally(p.base.Entries, p.next.Entries)
	slices.SortFunc(p.scan.Skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	index := &Index{Manifest: p.next, HeadTag: p.headTag, Digest: digest, Stamps: p.stamps, Scanned: p.scanned}
	if !fresh && p.stats.FilesRead == 0 && slices.Equal(p.stamps, p.base.Stamps) {
		index = p.base // nothing was learnt
	}
	return &Result{Version: version, New: fresh, Stats: p.stats, Skipped: p.scan.Skipped, Index: index}
}

// tally counts the files of two sorted lists: those that the second has anew or with other bytes, whether
// or not their bytes had to be sent, those that are the same, and those, links too, that it has no more.
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

// failed says how far a push came that did not get to its end.
func (p *push) failed(ctx context.Context, err error) error {
	if cause := context.Cause(p.pack.ctx); cause != nil && ctx.Err() == nil {
		err = cause // what failed first; the rest was only told to stop
	}
	if sandbox.CodeOf(err) == api.CodeWorkspaceTooLarge {
		return err
	}
	from := "the beginning"
	if p.base.ID != "" {
		from = "version " + p.base.ID
	}
	return stopped("push", api.CodeSyncFailed, err, "%d of %d changed files were sent or on their way; nothing was committed, and a retry resumes from %s", p.stats.FilesUploaded, p.stats.FilesRead, from)
}
