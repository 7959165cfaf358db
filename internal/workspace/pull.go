package workspace

import (
	"context"
	"slices"
	"strings"
	"sync"
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
	// Empty says that the tree is known to be empty: nothing is looked for.
	Empty bool
}

// Pull makes the tree what the store's version is, but for what was changed here since base: that stays,
// and a file changed on both sides is kept twice. Without a base nothing here is deleted.
func (r *Repo) Pull(ctx context.Context, t Tree, base *Index, o PullOptions) (*Result, error) {
	_, res, err := r.pull(ctx, t, base, o)
	return res, err
}

func (r *Repo) pull(ctx context.Context, t Tree, base *Index, o PullOptions) (*pull, *Result, error) {
	began := time.Now()
	r, requests := r.counting()
	p := &pull{Repo: r, o: o, tree: t, base: base, scan: new(ScanResult)}
	res, err := p.run(ctx)
	r.observe("pull", began, res, err)
	if err != nil {
		return nil, nil, err
	}
	res.Stats.Requests, res.Stats.Duration = requests.Load(), time.Since(began).Seconds()
	r.log().InfoContext(ctx, "workspace pulled", "version", res.Version, "conflicts", len(res.Conflicts), "stats", res.Stats)
	return p, res, nil
}

// pull is one pull under way.
type pull struct {
	*Repo
	o       PullOptions
	tree    Tree
	base    *Index
	scan    *ScanResult
	scanned int64

	head    *Head
	headTag blob.Tag
	there   *Manifest
	state   []byte // of there, as stored
	version Version
	steps   []Step
	stats   Stats

	mu   sync.Mutex
	both []Conflict
}

func (p *pull) run(ctx context.Context) (*Result, error) {
	same, err := p.look(ctx)
	if err != nil {
		return nil, unanswered("pull", err, "nothing was changed, and a retry begins again")
	}
	if same {
		files, _ := p.base.size()
		return &Result{Version: p.base.ID, Index: p.base, Stats: Stats{FilesSkipped: files}}, nil
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
	// What was written here is not older than a moment: only what nobody can have changed in the same tick
	// of the clock is taken for unchanged next time.
	if p.version.stranger == bare {
		p.state = p.there.encode(nil, nil) // now that its checksums are known
	}
	index := &Index{Manifest: *p.there, HeadTag: p.headTag, Digest: p.version.digest(), Stamps: stamps, Scanned: time.Now().UnixNano()}
	slices.SortFunc(p.both, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	return &Result{
		Version: p.there.ID, Stats: p.stats, Index: index, Conflicts: slices.CompactFunc(p.both, func(a, b Conflict) bool { return a.Path == b.Path }), Skipped: p.scan.Skipped, State: p.state,
		Flagged: p.flagged(),
	}, nil
}

// flagged is what was brought here that common tools run by themselves.
func (p *pull) flagged() (paths []string) {
	for i := range p.steps {
		if s := &p.steps[i]; (s.Act == Down || s.Act == Both) && s.There.Kind != Folder && Flagged(s.Path) {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// look finds the version to bring. It reports whether the tree was the same as that when it was last
// looked at: what was changed here since is for a push.
func (p *pull) look(ctx context.Context) (same bool, err error) {
	if err := p.choose(ctx); err != nil {
		return false, err
	}
	if p.base != nil && !p.head.follows(p.base) {
		p.base = nil // another history: nothing of it is known here
	}
	if p.base != nil && p.base.ID == p.version.ID && !p.o.Discard {
		p.base.HeadTag = p.headTag
		return true, nil
	}
	if p.there, p.state, err = p.manifestText(ctx, p.version); err != nil {
		return false, err
	}
	p.logState(ctx, "state file read", p.version.state(), len(p.state))
	if p.version.stranger == no && p.there.Lineage != p.head.Lineage {
		return false, bad("the manifest of version %s is of another history", p.version.ID)
	}
	return false, p.Limits.check(p.there)
}

// choose finds the version that was asked for.
func (p *pull) choose(ctx context.Context) (err error) {
	if p.head, p.headTag, err = p.readHistory(ctx); err != nil {
		return err
	}
	if p.version = p.head.newest(); p.o.Version != "" {
		p.version, err = p.find(ctx, p.head, p.o.Version)
	}
	return err
}

// follows reports whether a history goes on from a base. One that was set back, or took another way from
// some version on, never had what the base has: that must not be taken for deleted.
func (h *Head) follows(base *Index) bool {
	if h.Lineage != base.Lineage || h.Sequence < base.Sequence {
		return false
	}
	if base.Sequence == 0 {
		return true // versions of other tools are not counted
	}
	for _, v := range h.Versions {
		if v.Sequence == base.Sequence {
			return v.ID == base.ID
		}
	}
	return true // so long ago that HEAD does not say
}

// here is the tree as entries. Files that are clean have the checksums of the base, others are read.
func (p *pull) here(ctx context.Context) (here []Entry, err error) {
	p.scanned = time.Now().UnixNano()
	if p.o.Empty {
		return nil, nil
	}
	if p.scan, err = Scan(ctx, p.tree, ScanOptions{Ignore: p.o.Ignore, MaxEntries: p.Limits.entries(), Expect: len(p.there.Entries), Progress: p.Progress}); err != nil {
		return nil, err
	}
	base := p.base
	if base == nil {
		base = new(Index)
	}
	return sums(ctx, p.tree, p.scan.Entries, base)
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
		if s.Act == DownGone && p.version.stranger == bare && !p.o.Discard {
			s.Act = Up // a folder of objects does not say that it is whole
		}
		if s.Here != nil && p.scan.Entries[s.here].unfinished { // what a restore left of it is not what anybody chose
			s.Act = either(s.There != nil, Down, DownGone)
		}
		if s.Here == nil && s.There != nil && s.There.Kind == File && isUpload(nameOf(s.Path)) {
			s.Act = UpGone // an older version has it; the next one will not
		}
	}
	p.needFolders()
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

// needFolders brings back the folders of what is brought here, though they were removed or became files
// here meanwhile.
func (p *pull) needFolders() {
	for i := range p.steps {
		if p.steps[i].Act != Down {
			continue
		}
		for dir := parentOf(p.steps[i].Path); dir != ""; dir = parentOf(dir) {
			s := p.step(dir)
			if s.Act == Down || s.Here != nil && s.Here.Kind == Folder {
				break // it was seen to already, and so were those above it
			}
			s.Act = either(s.Here == nil, Down, Both)
		}
	}
}

// step is the one about a path that the version has.
func (p *pull) step(path string) *Step {
	i, _ := slices.BinarySearchFunc(p.steps, path, func(s Step, path string) int { return strings.Compare(s.Path, path) })
	return &p.steps[i]
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
	if gone*2 > files {
		return sandbox.Errorf("pull", api.CodeMassDelete, "version %s would delete %d of %d files; nothing was changed", p.version.ID, gone, files)
	}
	return nil
}

// conflict notes that what is at a path is kept twice.
func (p *pull) conflict(path, copy string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.both = append(p.both, Conflict{path, copy})
}

// stopped says how far a pull came that did not get to its end.
func (p *pull) stopped(err error) error {
	code := api.CodeSyncFailed
	if full(err) {
		code = api.CodeDiskFull
	}
	return stopped("pull", code, err, "%d files had been written, %d deleted; a retry resumes", p.stats.FilesDownloaded, p.stats.FilesDeleted)
}
