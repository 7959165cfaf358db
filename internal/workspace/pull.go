package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// PullOptions say how to bring a version here.
type PullOptions struct {
	// Version is the one to bring; empty: the newest.
	Version string
	Ignore  *Ignore
	// AllowMassDelete lets a pull delete more than half of the tree.
	AllowMassDelete bool
	// Discard makes the tree exactly the version, whatever was changed here. It is what a restore that
	// somebody asked for does; it counts as being told to delete.
	Discard bool
	// Empty says that the tree is known to be empty: nothing is looked for, and files are written directly.
	Empty bool
}

// Pull makes the tree what the store's version is, but for what was changed here since base: that stays,
// and a file changed on both sides is kept twice. Without a base nothing here is deleted.
func (r *Repo) Pull(ctx context.Context, t Tree, base *Index, o PullOptions) (*Result, error) {
	began := time.Now()
	r, requests := r.counting()
	p := &pull{Repo: r, o: o, tree: t, base: base}
	res, err := p.run(ctx)
	if err != nil {
		return nil, err
	}
	res.Stats.Requests, res.Stats.Duration = requests.Load(), time.Since(began).Seconds()
	r.log().InfoContext(ctx, "workspace pulled", "version", res.Version, "conflicts", len(res.Conflicts), "stats", res.Stats)
	return res, nil
}

// pull is one pull under way.
type pull struct {
	*Repo
	o       PullOptions
	tree    Tree
	base    *Index
	scan    *ScanResult
	scanned int64

	headTag blob.Tag
	there   *Manifest
	state   []byte // of there, as stored
	version Version
	steps   []Step
	stats   Stats
	both    []string
}

func (p *pull) run(ctx context.Context) (*Result, error) {
	same, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	if same {
		return &Result{Version: p.base.ID, Index: p.base, Stats: Stats{FilesSkipped: len(p.base.Entries)}}, nil
	}
	here, err := p.here(ctx)
	if err != nil {
		return nil, err
	}
	p.plan(here)
	if err := p.guard(here); err != nil {
		return nil, err
	}
	stamps, err := p.apply(ctx)
	if err != nil {
		return nil, err
	}
	index := &Index{Manifest: *p.there, HeadTag: p.headTag, Stamps: stamps, Scanned: p.scanned}
	index.Digest = p.version.digest()
	return &Result{Version: p.there.ID, Stats: p.stats, Index: index, Conflicts: p.both, Skipped: p.scan.Skipped, State: p.state}, nil
}

// look finds the version to bring. It reports whether the tree was the same as that when it was last
// looked at: what was changed here since is for a push.
func (p *pull) look(ctx context.Context) (same bool, err error) {
	head, tag, err := p.readHead(ctx)
	if err != nil {
		return false, err
	}
	p.headTag, p.version = tag, head.newest()
	if p.o.Version != "" {
		if p.version, err = p.find(ctx, head, p.o.Version); err != nil {
			return false, err
		}
	}
	if p.base != nil && p.base.Lineage != head.Lineage {
		p.base = nil // another history: nothing of it is known here
	}
	if p.base != nil && p.base.ID == p.version.ID && !p.o.Discard {
		p.base.HeadTag = tag
		return true, nil
	}
	p.there, p.state, err = p.manifestText(ctx, p.version)
	return false, err
}

// here is the tree as entries. Files that are clean have the checksums of the base, others are read.
func (p *pull) here(ctx context.Context) ([]Entry, error) {
	p.scanned = time.Now().UnixNano()
	p.scan = new(ScanResult)
	if p.o.Empty {
		return nil, nil
	}
	q := &push{Repo: p.Repo, base: p.base, tree: p.tree}
	if q.base == nil {
		q.base = new(Index)
	}
	var err error
	if q.scan, err = Scan(ctx, p.tree, ScanOptions{Ignore: p.o.Ignore}); err != nil {
		return nil, err
	}
	p.scan = q.scan
	return q.sums(ctx)
}

// plan compares the trees.
func (p *pull) plan(here []Entry) {
	var base []Entry
	if p.base != nil {
		base = p.base.Entries
	}
	p.steps = Compare(base, here, p.there.Entries)
	for i := range p.steps {
		s := &p.steps[i]
		if p.o.Discard {
			s.discard()
		}
		if s.Act == Both && (s.Here.Kind != Folder || s.There.Kind != Folder) {
			p.both = append(p.both, s.Path)
		}
	}
}

// discard makes a step do what the store says, whatever was changed here.
func (s *Step) discard() {
	switch {
	case s.There == nil:
		s.Act = DownGone
	case s.Here == nil || !alike(s.Here, s.There):
		s.Act = Down
	}
}

// guard refuses to delete most of a tree that nobody asked to be deleted.
func (p *pull) guard(here []Entry) error {
	if p.o.AllowMassDelete || p.o.Discard {
		return nil
	}
	files, gone := 0, 0
	for i := range here {
		if here[i].Kind != Folder {
			files++
		}
	}
	for i := range p.steps {
		if s := &p.steps[i]; s.Act == DownGone && s.Here != nil && s.Here.Kind != Folder {
			gone++
		}
	}
	if massive && gone*2 > files {
		return sandbox.Errorf("pull", api.CodeMassDelete, "version %s would delete %d of %d files; nothing was changed", p.version.ID, gone, files)
	}
	return nil
}

// apply does what was planned: room first, then folders, then files, then removals, children before
// parents, and the times of folders last. It returns the stamp of every entry of the version that is
// here as the version has it.
func (p *pull) apply(ctx context.Context) ([]Stamp, error) {
	w := newWriter(p)
	for _, part := range []func() error{
		p.makeRoom, p.folders, func() error { return w.all(ctx) }, p.removals, p.folderTimes,
	} {
		if err := part(); err != nil {
			return nil, p.stopped(err)
		}
	}
	for i := range p.steps {
		if s := &p.steps[i]; s.Act == Keep && s.Here.Kind == File {
			w.stamps[s.there] = p.scan.Entries[s.here].Stamp
		}
	}
	return w.stamps, nil
}

// makeRoom removes what is in the way of a file that was a folder, and moves a file that was changed here
// out of the way of a folder.
func (p *pull) makeRoom() error {
	return p.tree.Run(func(root int) error {
		for i := range p.steps {
			s := &p.steps[i]
			switch {
			case s.Act == Down && s.There.Kind != Folder && s.Here != nil && s.Here.Kind == Folder:
				if err := p.empty(root, s.Path); err != nil {
					return err
				}
			case s.Act == Both && s.There.Kind == Folder && s.Here.Kind != Folder:
				if err := moveAside(root, s.Path, conflictName(s.Path, "here-"+p.version.ID)); err != nil {
					return fmt.Errorf("make room for the folder %s: %w", s.Path, err)
				}
				s.Act, s.Here = Down, nil
			}
		}
		return nil
	})
}

// empty removes what goes below a folder, and the folder if nothing is left in it.
func (p *pull) empty(root int, path string) error {
	for i := range slices.Backward(p.steps) {
		if s := &p.steps[i]; s.Act == DownGone && s.Here != nil && strings.HasPrefix(s.Path, path+"/") {
			if err := remove(root, s.Here); err != nil {
				return fmt.Errorf("delete %s: %w", s.Path, err)
			}
		}
	}
	return remove(root, &Entry{Path: path, Kind: Folder})
}

// stopped says how far a pull came that did not get to its end.
func (p *pull) stopped(err error) error {
	code := api.CodeSyncFailed
	if full(err) {
		code = api.CodeDiskFull
	}
	return sandbox.Errorf("pull", code, "%d files had been written, %d deleted; trying again goes on: %w", p.stats.FilesDownloaded, p.stats.FilesDeleted, err)
}

// folders makes the folders of the version, in the place of files that were there.
func (p *pull) folders() error {
	return p.tree.Run(func(root int) error {
		for i := range p.steps {
			if s := &p.steps[i]; s.Act == Down && s.There.Kind == Folder && (s.Here == nil || s.Here.Kind != Folder) {
				if err := makeFolder(root, s.Path); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// removals removes what the version does not have, children before parents. A folder in which something
// new is stays.
func (p *pull) removals() error {
	return p.tree.Run(func(root int) error {
		for i := range slices.Backward(p.steps) {
			s := &p.steps[i]
			if s.Act != DownGone || s.Here == nil {
				continue
			}
			if err := remove(root, s.Here); err != nil {
				return fmt.Errorf("delete %s: %w", s.Path, err)
			}
			if s.Here.Kind != Folder {
				p.stats.FilesDeleted++
			}
		}
		return nil
	})
}

func (p *pull) folderTimes() error {
	return p.tree.Run(func(root int) error {
		for i := range slices.Backward(p.steps) {
			s := &p.steps[i]
			if s.There == nil || s.There.Kind != Folder || s.Act != Down && s.Act != Keep {
				continue
			}
			if err := passable(setFolder(root, s.There)); err != nil {
				return err
			}
		}
		return nil
	})
}
