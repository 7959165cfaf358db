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
	"github.com/berthdev/berth/internal/sandbox"
)

// Capture is a version that was made without the store: its manifest and the packs that its parent does not
// have are in a stage, another store. [Repo.Commit] brings it into the store.
type Capture struct {
	Line    Version `json:"line"` // its line of the history; the writer is set, the note is not
	Lineage string  `json:"lineage"`
	Packs   []Pack  `json:"packs,omitempty"` // that are in the stage
	// New is false where the tree was the same as the parent: then there is nothing to commit.
	New bool `json:"new"`
}

// Version is the version that the tree was the same as when it was captured.
func (c *Capture) Version() string {
	if c.New {
		return c.Line.ID
	}
	return c.Line.Parent
}

// errPlain is a capture in the plain layout, which copies objects inside the store.
var errPlain = sandbox.Errorf("capture", api.CodeUnsupported, "the plain layout is saved in the store at once")

// Capture makes a version of the tree in r, which is a stage and not the store of versions. Base is the version
// that the new one follows: it may be a capture that is not committed yet. Nothing is read from the store of
// versions, so that a capture does not depend on it. The tree is read as Push reads it.
func (r *Repo) Capture(ctx context.Context, t Tree, base *Index, o PushOptions) (*Capture, *Result, error) {
	if r.Layout == Plain {
		return nil, nil, errPlain
	}
	if base == nil {
		base = new(Index)
	}
	p := &push{Repo: r, o: o, base: base, tree: t}
	if err := p.scanTree(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.name(); err != nil {
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

// stage writes the manifest into the stage, beside the packs.
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
	line := p.line(text)
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

// Commit brings a capture from its stage into the store, if the newest version there is the capture's parent;
// otherwise it is ErrMoved. A capture that was committed before, by a process that died after it, is left as
// it is. The note is kept with the version.
func (r *Repo) Commit(ctx context.Context, stage *Repo, c *Capture, note string) error {
	began, res := time.Now(), new(Result)
	for _, pack := range c.Packs {
		res.Stats.BytesTransferred += pack.Size
	}
	err := r.commit(ctx, stage, c, note)
	r.observe("push", began, res, err)
	return err
}

func (r *Repo) commit(ctx context.Context, stage *Repo, c *Capture, note string) error {
	for try := 1; ; try++ {
		p, done, err := r.behind(ctx, c)
		if err != nil || done {
			return err
		}
		p.o.Note = note
		if err := p.send(ctx, stage, c); err != nil {
			return stopped("push", api.CodeSyncFailed, err, "nothing was committed, and trying again goes on")
		}
		r.at("sent")
		err = p.moveWithin(ctx, p.noted(c.Line))
		if err == nil {
			r.log().InfoContext(ctx, "workspace pushed", "version", c.Line.ID, "new", true, "captured", c.Line.At)
		}
		// HEAD is also written by a prune, which leaves the newest version as it is.
		if !errors.Is(err, ErrMoved) || try == syncTries {
			return err
		}
	}
}

// CommitBeside brings a capture into the history without making it the newest version: it follows its parent there,
// beside the versions that others saved since. It is for a capture whose tree is gone, so that nothing can be
// merged. Where the parent is not in the history any more it is ErrMoved. The note is kept with the version.
func (r *Repo) CommitBeside(ctx context.Context, stage *Repo, c *Capture, note string) error {
	for try := 1; ; try++ {
		p, done, err := r.behind(ctx, c)
		if err == nil && !done { // HEAD is the parent by now
			return r.Commit(ctx, stage, c, note)
		}
		if done || !errors.Is(err, ErrMoved) || p == nil {
			return err
		}
		// A capture without a parent has all its packs with it.
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
		line := p.noted(c.Line)
		if c.Lineage != p.head.Lineage {
			if line.SHA256, err = p.adopt(ctx, stage, c); err != nil {
				return stopped("push", api.CodeSyncFailed, err, "nothing was committed, and trying again goes on")
			}
		}
		err = p.insert(ctx, line)
		if err == nil {
			r.log().InfoContext(ctx, "workspace saved beside the newest version", "version", c.Line.ID, "captured", c.Line.At)
		}
		if !errors.Is(err, blob.ErrPrecondition) || try == syncTries {
			return err
		}
	}
}

// adopt stores the manifest of a capture that began a history of its own as one of this history, and returns its
// checksum.
func (p *push) adopt(ctx context.Context, stage *Repo, c *Capture) (sum string, err error) {
	m, err := stage.manifestOf(ctx, c.Line)
	if err != nil {
		return "", err
	}
	m.Lineage = p.head.Lineage
	text := m.Encode()
	digest := sha256.Sum256(text)
	ctx, cancel := context.WithTimeout(ctx, requestTime(int64(len(text))))
	defer cancel()
	_, err = p.put(ctx, c.Line.state(), text, blob.PutOptions{})
	return hex.EncodeToString(digest[:]), err
}

// insert puts a line into the history right above its parent.
func (p *push) insert(ctx context.Context, line Version) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime(0))
	defer cancel()
	next := *p.head
	at := slices.IndexFunc(next.Versions, func(v Version) bool { return v.ID == line.Parent })
	if at < 0 {
		at = len(next.Versions) // the parent is in an older page
	}
	next.Versions = slices.Insert(slices.Clone(next.Versions), at, line)
	_, err := p.writeHead(ctx, &next, p.headTag)
	return err
}

// requestTime bounds one request of a commit, so that a store that hangs does not hold it for long.
func requestTime(size int64) time.Duration {
	return 15*time.Second + time.Duration(size/(128<<10))*time.Second
}

func (p *push) moveWithin(ctx context.Context, line Version) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime(0))
	defer cancel()
	_, err := p.move(ctx, line)
	return err
}

// behind reads HEAD for a capture, and reports whether the capture is committed already.
func (r *Repo) behind(ctx context.Context, c *Capture) (p *push, done bool, err error) {
	brief, cancel := context.WithTimeout(ctx, requestTime(0))
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
		return nil, false, ErrMoved // the versions before it are gone: everything has to be sent
	case head == nil && !c.New:
		return nil, true, nil
	case head == nil:
		return p, false, p.lookForOthers(ctx)
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
		g.Go(func() error { return p.sendOne(ctx, stage, pack.Key) })
	}
	g.Go(func() error { return p.sendOne(ctx, stage, c.Line.state()) })
	return g.Wait()
}

func (p *push) sendOne(ctx context.Context, stage *Repo, key string) error {
	o, err := stage.Store.Get(ctx, stage.Prefix+key, blob.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the captured %s: %w", key, err)
	}
	defer o.Body.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTime(o.Size))
	defer cancel()
	if _, err := p.Store.Put(ctx, p.Prefix+key, o.Body, o.Size, blob.PutOptions{}); err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// noted is a line of the history with the note of this push.
func (p *push) noted(v Version) Version {
	v.Note = clipNote(p.o.Note)
	return v
}

// EncodeIndex is the index as a text that DecodeIndex reads.
func EncodeIndex(x *Index) []byte { return x.encode() }

// DecodeIndex reads what EncodeIndex wrote.
func DecodeIndex(text []byte) (*Index, error) { return decodeIndex(text) }
