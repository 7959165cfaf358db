package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// Capture is a version that was made without the object store. Its manifest and its new packs are in a second
// store, the stage. [Repo.Commit] copies them to the object store and commits the version.
type Capture struct {
	Line    Version `json:"line"` // entry for the history; the writer is set, the note is not
	Lineage string  `json:"lineage"`
	Packs   []Pack  `json:"packs,omitempty"` // new packs, stored in the stage
	// New is false if the tree equalled the parent version, so that there is nothing to commit.
	New   bool  `json:"new"`
	Stats Stats `json:"stats"` // work of the capture, before the commit
}

// Version returns the id of the version that equals the captured tree: the new version, or the parent if nothing
// changed.
func (c *Capture) Version() string {
	if c.New {
		return c.Line.ID
	}
	return c.Line.Parent
}

// errPlain is returned by Capture for the plain layout, which copies objects inside the store.
var errPlain = fault.Errorf("capture", api.CodeUnsupported, "the plain layout is saved in the store at once")

// Capture makes a version of the tree in r, which must be a stage. The new version follows base, which may be an
// uncommitted capture. Capture never reads the store of versions, so it does not depend on that store. It reads the
// tree as Push does.
func (r *Repo) Capture(ctx context.Context, t Tree, base *Index, o PushOptions) (*Capture, *Result, error) {
	if r.Layout == Plain {
		return nil, nil, errPlain
	}
	began := time.Now()
	c, res, err := r.capture(ctx, t, base, o)
	if err != nil {
		return nil, nil, err
	}
	res.Stats.Duration = time.Since(began).Seconds()
	c.Stats = res.Stats
	return c, res, nil
}

func (r *Repo) capture(ctx context.Context, t Tree, base *Index, o PushOptions) (*Capture, *Result, error) {
	if base == nil {
		base = new(Index)
	}
	p := &push{Repo: r, o: o, base: base, tree: t}
	if err := p.scanTree(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.setID(); err != nil {
		return nil, nil, err
	}
	p.pack = newPacker(ctx, p)
	defer p.pack.stop()
	if err := p.gather(); err != nil {
		return nil, nil, p.failed(ctx, err)
	}
	if p.unchanged() || base.ID == "" && len(p.next.Entries) == 0 {
		if err := p.pack.wait(); err != nil {
			return nil, nil, p.failed(ctx, err)
		}
		c := &Capture{Line: Version{Parent: base.ID, Sequence: base.Sequence}, Lineage: base.Lineage}
		return c, p.result(base.ID, base.Digest, false), nil
	}
	return p.stage(ctx)
}

// stage writes the manifest into the stage, next to the packs.
func (p *push) stage(ctx context.Context) (*Capture, *Result, error) {
	m := &p.next
	m.Packs = p.pack.packs
	if err := checkEntries(m.Entries, m.Packs); err != nil {
		return nil, nil, err
	}
	text := m.Encode()
	if len(text) > maxManifest {
		return nil, nil, tooLarge("the list of its files has %d bytes, more than %d", len(text), maxManifest)
	}
	if err := p.pack.wait(); err != nil {
		return nil, nil, p.failed(ctx, err)
	}
	line := p.historyEntry(text)
	if _, err := p.put(ctx, line.state(), text, blob.PutOptions{}); err != nil {
		return nil, nil, p.failed(ctx, err)
	}
	c := &Capture{Line: line, Lineage: m.Lineage, New: true}
	for _, pack := range m.Packs {
		if !slices.ContainsFunc(p.base.Packs, func(b Pack) bool { return b.Key == pack.Key }) {
			c.Packs = append(c.Packs, pack)
		}
	}
	res := p.result(m.ID, line.digest(), true)
	res.State = text
	return c, res, nil
}

// Commit copies a capture from its stage to the store and commits it with the note. It returns ErrMoved if the
// newest version in the store is not the capture's parent. It does nothing if the capture is already committed.
func (r *Repo) Commit(ctx context.Context, stage *Repo, c *Capture, note string) error {
	began, res := time.Now(), &Result{Stats: c.Stats}
	res.Stats.BytesTransferred = 0
	for _, pack := range c.Packs {
		res.Stats.BytesTransferred += pack.Size
	}
	r, requests := r.counting()
	done, err := r.commit(ctx, stage, c, note)
	r.observe("push", began, res, err)
	if err == nil && !done {
		res.Stats.Requests, res.Stats.Duration = requests.Load(), time.Since(began).Seconds()
		r.log().InfoContext(ctx, "workspace pushed", "version", c.Line.ID, "new", true, "captured", c.Line.At, "stats", res.Stats)
	}
	return err
}

// commit does the work of Commit. It reports whether the capture was already committed.
func (r *Repo) commit(ctx context.Context, stage *Repo, c *Capture, note string) (done bool, err error) {
	for try := 1; ; try++ {
		p, done, err := r.prepareCommit(ctx, c)
		if err != nil || done {
			return done, err
		}
		p.o.Note = note
		if err := p.send(ctx, stage, c); err != nil {
			return false, stopped("push", api.CodeSyncFailed, err, "nothing was committed, and trying again goes on")
		}
		r.at("sent")
		err = p.moveWithin(ctx, p.withNote(c.Line))
		// ErrMoved can also come from a prune, which writes HEAD but keeps the newest version. Then another attempt
		// succeeds.
		if !errors.Is(err, ErrMoved) || try == syncTries {
			return false, err
		}
	}
}

// CommitBeside adds a capture to the history without making it the newest version: it follows its parent, and the
// newer versions stay. It serves a capture whose tree no longer exists, so that nothing can be merged. It returns
// ErrMoved if the parent is no longer in the history. The note is stored with the version.
func (r *Repo) CommitBeside(ctx context.Context, stage *Repo, c *Capture, note string) error {
	for try := 1; ; try++ {
		p, done, err := r.prepareCommit(ctx, c)
		if err == nil && !done { // the newest version is the parent: a normal commit is possible
			return r.Commit(ctx, stage, c, note)
		}
		if done || !errors.Is(err, ErrMoved) || p == nil {
			return err
		}
		// A capture without a parent needs no version in the store, because it contains all its packs.
		if parent, err := p.committed(ctx, c.Line.Parent); err != nil || !parent && c.Line.Parent != "" {
			return cmp.Or(err, error(ErrMoved))
		}
		if !c.New {
			return nil
		}
		p.o.Note = note
		if err := p.send(ctx, stage, c); err != nil {
			return stopped("push", api.CodeSyncFailed, err, "nothing was committed, and trying again goes on")
		}
		line := p.withNote(c.Line)
		if c.Lineage != p.head.Lineage {
			if line.SHA256, err = p.adopt(ctx, stage, c); err != nil {
				return stopped("push", api.CodeSyncFailed, err, "nothing was committed, and trying again goes on")
			}
		}
		err = p.insert(ctx, line)
		if err == nil {
			r.log().InfoContext(ctx, "workspace saved beside the newest version", "version", c.Line.ID, "captured", c.Line.At, "stats", c.Stats)
		}
		if !errors.Is(err, blob.ErrPrecondition) || try == syncTries {
			return err
		}
	}
}

// adopt stores the manifest of a capture with another lineage again, with the lineage of this history. It returns
// the checksum of the changed manifest.
func (p *push) adopt(ctx context.Context, stage *Repo, c *Capture) (sum string, err error) {
	m, err := stage.manifestOf(ctx, c.Line)
	if err != nil {
		return "", err
	}
	m.Lineage = p.head.Lineage
	text := m.Encode()
	digest := sha256.Sum256(text)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout(int64(len(text))))
	defer cancel()
	_, err = p.put(ctx, c.Line.state(), text, blob.PutOptions{})
	return hex.EncodeToString(digest[:]), err
}

// insert adds an entry to the history, directly before its parent in the newest-first list.
func (p *push) insert(ctx context.Context, line Version) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout(0))
	defer cancel()
	next := *p.head
	at := slices.IndexFunc(next.Versions, func(v Version) bool { return v.ID == line.Parent })
	if at < 0 {
		at = len(next.Versions) // the parent is in a log object
	}
	next.Versions = slices.Insert(slices.Clone(next.Versions), at, line)
	_, err := p.writeHead(ctx, &next, p.headTag)
	return err
}

// requestTimeout returns the timeout of one request of a commit for the given number of bytes, so that a hanging store
// does not block the commit for long.
func requestTimeout(size int64) time.Duration {
	return 15*time.Second + time.Duration(size/(128<<10))*time.Second
}

func (p *push) moveWithin(ctx context.Context, line Version) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout(0))
	defer cancel()
	_, err := p.moveHead(ctx, line)
	return err
}

// prepareCommit reads HEAD and prepares a push that commits the capture. It reports whether the capture is already
// committed. It returns ErrMoved if the newest version is not the capture's parent.
func (r *Repo) prepareCommit(ctx context.Context, c *Capture) (p *push, done bool, err error) {
	brief, cancel := context.WithTimeout(ctx, requestTimeout(0))
	defer cancel()
	head, tag, err := r.readHead(brief)
	if errors.Is(err, errNoHead) {
		head, err = nil, nil
	}
	if err != nil {
		return nil, false, err
	}
	p = &push{Repo: r, head: head, headTag: tag, base: &Index{Manifest: Manifest{ID: c.Line.Parent}}}
	p.next = Manifest{ID: c.Line.ID, Lineage: c.Lineage, Sequence: c.Line.Sequence}
	switch {
	case head == nil && c.Line.Parent != "":
		return nil, false, ErrMoved // the store has lost the parent, which has packs that the capture refers to
	case head == nil && !c.New:
		return nil, true, nil
	case head == nil:
		return p, false, p.findForeignVersions(ctx)
	case head.newest().ID == c.Line.Parent && head.Lineage == c.Lineage:
		return p, !c.New, nil
	case !c.New:
		return p, false, ErrMoved
	}
	done, err = p.committed(ctx, c.Line.ID)
	if err == nil && !done {
		err = ErrMoved
	}
	return p, done, err
}

// send copies the packs and the manifest of a capture into the store.
func (p *push) send(ctx context.Context, stage *Repo, c *Capture) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sending)
	for _, pack := range c.Packs {
		g.Go(func() error { return p.sendOne(ctx, stage, c, pack.Key) })
	}
	g.Go(func() error { return p.sendOne(ctx, stage, c, c.Line.state()) })
	return g.Wait()
}

func (p *push) sendOne(ctx context.Context, stage *Repo, c *Capture, key string) error {
	o, err := stage.Store.Get(ctx, stage.Prefix+key, blob.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the captured %s: %w", key, err)
	}
	defer o.Body.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout(o.Size))
	defer cancel()
	if _, err := p.Store.Put(ctx, p.Prefix+key, o.Body, o.Size, blob.PutOptions{}); err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	if key == c.Line.state() {
		p.logState(ctx, "state file written", key, int(o.Size))
	}
	return nil
}

// withNote returns a history entry with the note of this push, cut to maxNote bytes.
func (p *push) withNote(v Version) Version {
	v.Note = fault.Clip(p.o.Note, maxNote)
	return v
}

// EncodeIndex encodes the index for DecodeIndex.
func EncodeIndex(x *Index) []byte { return x.encode() }

// DecodeIndex decodes an index that EncodeIndex wrote.
func DecodeIndex(text []byte) (*Index, error) { return decodeIndex(text) }
