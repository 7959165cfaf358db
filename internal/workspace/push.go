package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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
	MaxEntries int
	Note       string
	// Version names the new version; empty: its time does.
	Version string
}

// ErrMoved is a push onto a store that somebody else has pushed to since: pull first.
var ErrMoved = sandbox.Errorf("push", api.CodeSyncConflict, "the store has a version that this tree was never the same as")

// Push saves the tree as a new version. Base is what the tree was last the same as, nil if that is not
// known; a push without a base is only possible where there is no version yet. When nothing has changed
// there is no new version.
func (r *Repo) Push(ctx context.Context, t Tree, base *Index, o PushOptions) (*Result, error) {
	began := time.Now()
	r, requests := r.counting()
	p := &push{Repo: r, o: o, base: base, tree: t}
	res, err := p.run(ctx)
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
		return nil, err
	}
	p.pack = newPacker(ctx, p)
	defer p.pack.cancel()
	if err := p.gather(ctx); err != nil {
		return nil, err
	}
	if p.unchanged() {
		return p.result(p.base.ID, p.base.Digest, false), nil
	}
	return p.commit(ctx)
}

// look reads HEAD and the tree at the same time.
func (p *push) look(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error {
		head, tag, err := p.readHead(ctx)
		if errors.Is(err, errNoHead) {
			return nil
		}
		p.head, p.headTag = head, tag
		return err
	})
	p.scanned = time.Now().UnixNano()
	var err error
	p.scan, err = Scan(ctx, p.tree, ScanOptions{Ignore: p.o.Ignore, MaxEntries: p.o.MaxEntries})
	if headErr := g.Wait(); headErr != nil {
		return headErr
	}
	if err != nil {
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

// gather makes the entries of the next version: those that are clean from the base, others from the tree.
func (p *push) gather(ctx context.Context) error {
	seen, base := p.scan.Entries, 0
	p.next.Entries, p.stamps = make([]Entry, len(seen)), make([]Stamp, len(seen))
	var dirty []int
	for i := range seen {
		for base < len(p.base.Entries) && p.base.Entries[base].Path < seen[i].Path {
			base++
		}
		e := &p.next.Entries[i]
		*e = Entry{Path: seen[i].Path, Kind: seen[i].Kind, Mode: seen[i].Mode, ModTime: seen[i].ModTime, Target: seen[i].Target}
		p.stamps[i] = seen[i].Stamp
		if e.Kind != File {
			continue
		}
		if base < len(p.base.Entries) && p.base.Entries[base].Path == e.Path && p.base.clean(base, &seen[i]) {
			*e = p.base.Entries[base]
			e.At = p.pack.from(e)
			p.stats.FilesSkipped++
			continue
		}
		e.Size = seen[i].Size
		dirty = append(dirty, i)
	}
	if err := p.readAll(ctx, dirty); err != nil {
		return err
	}
	p.drop()
	return p.pack.flush()
}

// drop takes out what was gone, or could not be read, when it was to be.
func (p *push) drop() {
	kept := 0
	for i := range p.next.Entries {
		if p.next.Entries[i].Kind != 0 {
			p.next.Entries[kept], p.stamps[kept] = p.next.Entries[i], p.stamps[i]
			kept++
		}
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
	m.At, m.Packs = p.now().UTC(), p.pack.packs
	m.ID, m.Parent = p.o.Version, p.base.ID
	if m.ID == "" {
		m.ID = after(m.Parent, m.At)
	}
	m.Lineage, m.Sequence = p.base.Lineage, p.base.Sequence+1
	if m.Lineage == "" {
		m.Lineage = uuid.NewString()
	}
	if err := checkVersion(m.ID); err != nil {
		return nil, err
	}
	text := m.Encode()
	digest := sha256.Sum256(text)
	var g errgroup.Group
	g.Go(func() error {
		_, err := p.put(ctx, m.ID+"/"+StateFile, text, blob.PutOptions{IfAbsent: p.o.Version != "" && !p.Unconditional})
		if errors.Is(err, blob.ErrPrecondition) {
			return sandbox.Errorf("push", api.CodeConflict, "there is a version %s already", m.ID)
		}
		if err != nil {
			return fmt.Errorf("store the manifest of version %s: %w", m.ID, err)
		}
		return nil
	})
	g.Go(p.pack.wait)
	if err := g.Wait(); err != nil {
		return nil, failed(p.stats, err)
	}
	tag, err := p.move(ctx, digest)
	if err != nil {
		return nil, err
	}
	p.headTag = tag
	res := p.result(m.ID, digest, true)
	res.State = text
	return res, nil
}

// move makes the new version what HEAD is.
func (p *push) move(ctx context.Context, digest [32]byte) (blob.Tag, error) {
	next := Head{Format: 1, Lineage: p.next.Lineage, Sequence: p.next.Sequence}
	line := Version{ID: p.next.ID, Sequence: p.next.Sequence, Parent: p.next.Parent, At: p.next.At, SHA256: hex.EncodeToString(digest[:]), Note: p.o.Note}
	for i := range p.next.Entries {
		if e := &p.next.Entries[i]; e.Kind == File {
			line.Files, line.Bytes = line.Files+1, line.Bytes+e.Size
		}
	}
	next.Versions = []Version{line}
	if p.head != nil {
		next.Versions, next.Log, next.Prunes = append(next.Versions, p.head.Versions...), p.head.Log, p.head.Prunes
	}
	tag, err := p.writeHead(ctx, &next, p.headTag)
	if err == nil {
		return tag, nil
	}
	// The answer to a write that succeeded may have been lost, and its repetition refused.
	if is, tag, readErr := p.readHead(ctx); readErr == nil && is.newest().ID == p.next.ID {
		return tag, nil
	}
	if errors.Is(err, blob.ErrPrecondition) {
		return "", ErrMoved
	}
	return "", fmt.Errorf("commit version %s: %w", p.next.ID, err)
}

func (p *push) result(version string, digest [32]byte, fresh bool) *Result {
	if !fresh {
		p.next.ID, p.next.Lineage, p.next.Parent, p.next.Sequence, p.next.At = p.base.ID, p.base.Lineage, p.base.Parent, p.base.Sequence, p.base.At
		p.next.Packs = p.pack.packs
	}
	return &Result{
		Version: version, New: fresh, Stats: p.stats, Skipped: p.scan.Skipped,
		Index: &Index{Manifest: p.next, HeadTag: p.headTag, Digest: digest, Stamps: p.stamps, Scanned: p.scanned},
	}
}

// failed says how far a sync came that did not get to its end.
func failed(s Stats, err error) error {
	return sandbox.Errorf("push", api.CodeSyncFailed, "%d files had been sent; nothing was committed, and trying again goes on: %w", s.FilesUploaded, err)
}
