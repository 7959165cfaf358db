package workspace

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// PullOptions configure a pull or a restore.
type PullOptions struct {
	// Version is the id of the version to pull. Empty means the newest.
	Version string
	Ignore  *Ignore
	// AllowMassDelete permits a pull to delete more than half of the tree.
	AllowMassDelete bool
	// Discard makes the tree equal to the version and discards local changes, as a restore requires. It implies
	// AllowMassDelete.
	Discard bool
	// Empty skips the scan. The caller knows that the tree is empty.
	Empty bool
}

// Pull makes the tree equal to a version in the store, but keeps local changes since base. If a file was changed on
// both sides, both copies are kept. Without a base nothing in the tree is deleted.
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

// pull is the state of a running pull.
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
	state   []byte // manifest of there as it is stored
	version Version
	steps   []Step
	stats   Stats

	mu   sync.Mutex
	both []Conflict
}

func (p *pull) run(ctx context.Context) (*Result, error) {
	same, err := p.findVersion(ctx)
	if err != nil {
		return nil, unanswered("pull", err, "nothing was changed, and a retry begins again")
	}
	if same {
		files, _ := p.base.size()
		return &Result{Version: p.base.ID, Index: p.base, Stats: Stats{FilesSkipped: files}}, nil
	}
	here, err := p.scanHere(ctx)
	if err != nil {
		return nil, err
	}
	p.plan(here)
	if err := p.checkMassDelete(here); err != nil {
		return nil, err
	}
	stamps, err := p.apply(ctx)
	if err != nil {
		return nil, err
	}
	if p.version.foreign == bare {
		p.state = p.there.encode(nil, nil) // the restore has computed the checksums
	}
	// Scanned is the end of the pull: the next scan then treats files written just before it as changed.
	index := &Index{Manifest: *p.there, HeadTag: p.headTag, Digest: p.version.digest(), Stamps: stamps, Scanned: time.Now().UnixNano()}
	slices.SortFunc(p.both, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	return &Result{
		Version: p.there.ID, Stats: p.stats, Index: index, Conflicts: slices.CompactFunc(p.both, func(a,
			b Conflict) bool {
			return a.Path == b.Path
		}), Skipped: p.scan.Skipped, State: p.state,
		Flagged: p.flagged(),
	}, nil
}

// flagged lists the restored files that common tools execute without asking.
func (p *pull) flagged() (paths []string) {
	for i := range p.steps {
		if s := &p.steps[i]; (s.Act == Down || s.Act == Both) && s.There.Kind != Folder && RunsByItself(s.Path) {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// findVersion finds the version to pull and reads its manifest. It returns true if base already is that version; local
// changes are then left to the next push.
func (p *pull) findVersion(ctx context.Context) (same bool, err error) {
	if err := p.choose(ctx); err != nil {
		return false, err
	}
	if p.base != nil && !p.head.follows(p.base) {
		p.base = nil // base belongs to another history
	}
	if p.base != nil && p.base.ID == p.version.ID && !p.o.Discard {
		p.base.HeadTag = p.headTag
		return true, nil
	}
	if p.there, p.state, err = p.manifestText(ctx, p.version); err != nil {
		return false, err
	}
	p.logState(ctx, "state file read", p.version.state(), len(p.state))
	if p.version.foreign == notForeign && p.there.Lineage != p.head.Lineage {
		return false, bad("the manifest of version %s is of another history", p.version.ID)
	}
	return false, p.Limits.check(p.there)
}

// choose reads the history and finds the requested version.
func (p *pull) choose(ctx context.Context) (err error) {
	if p.head, p.headTag, err = p.readHistory(ctx); err != nil {
		return err
	}
	if p.version = p.head.newest(); p.o.Version != "" {
		p.version, err = p.find(ctx, p.head, p.o.Version)
	}
	return err
}

// follows reports whether the history continues from a base. A history that was reset, or that branched before the
// base, never contained the base's files. These must not count as deleted.
func (h *Head) follows(base *Index) bool {
	if h.Lineage != base.Lineage || h.Sequence < base.Sequence {
		return false
	}
	if base.Sequence == 0 {
		return true // versions of other tools have no sequence numbers
	}
	for _, v := range h.Versions {
		if v.Sequence == base.Sequence {
			return v.ID == base.ID
		}
	}
	return true // HEAD no longer lists versions this old
}

// scanHere returns the entries of the tree. Unchanged files get the checksums of the base; other files are read.
func (p *pull) scanHere(ctx context.Context) (here []Entry, err error) {
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

// plan compares base, tree and version, and decides the steps.
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
		if s.Act == DownGone && p.version.foreign == bare && !p.o.Discard {
			s.Act = Up // the folder of a version without a state file may be incomplete
		}
		if s.Here != nil && p.scan.Entries[s.here].unfinished { // an interrupted restore created the folder
			s.Act = either(s.There != nil, Down, DownGone)
		}
		if s.Here == nil && s.There != nil && s.There.Kind == File && isUpload(nameOf(s.Path)) {
			s.Act = UpGone // an old version contains an upload file: do not restore it
		}
	}
	p.needFolders()
}

// discard changes the action of a step so that the tree follows the store.
func (s *Step) discard() {
	switch {
	case s.There == nil:
		s.Act = DownGone
	case s.Here == nil || !alike(s.Here, s.There):
		s.Act = Down
	}
}

// needFolders adds steps for the parent folders of pulled files that were removed or replaced in the tree.
func (p *pull) needFolders() {
	for i := range p.steps {
		if p.steps[i].Act != Down {
			continue
		}
		for dir := parentOf(p.steps[i].Path); dir != ""; dir = parentOf(dir) {
			s := p.step(dir)
			if s.Act == Down || s.Here != nil && s.Here.Kind == Folder {
				break // this folder and its parents need no step
			}
			s.Act = either(s.Here == nil, Down, Both)
		}
	}
}

// step returns the step of a path. The path must be in the version.
func (p *pull) step(path string) *Step {
	i, _ := slices.BinarySearchFunc(p.steps, path, func(s Step, path string) int { return strings.Compare(s.Path, path) })
	return &p.steps[i]
}

// checkMassDelete returns CodeMassDelete if the pull would delete more than half of the files without permission.
func (p *pull) checkMassDelete(here []Entry) error {
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
		return fault.Errorf("pull", api.CodeMassDelete, "version %s would delete %d of %d files; nothing was changed", p.version.ID, gone, files)
	}
	return nil
}

// conflict records a path of which two copies are kept.
func (p *pull) conflict(path, copy string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.both = append(p.both, Conflict{path, copy})
}

// stopped adds the numbers of written and deleted files to the error of an interrupted pull.
func (p *pull) stopped(err error) error {
	code := api.CodeSyncFailed
	if isNoSpace(err) {
		code = api.CodeDiskFull
	}
	return stopped("pull", code, err, "%d files had been written, %d deleted; a retry resumes", p.stats.FilesDownloaded, p.stats.FilesDeleted)
}
