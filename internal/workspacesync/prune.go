package workspacesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// pruneFor limits the prune of one workspace, because the prune holds the sandbox's lease and saves wait for it.
// After an interruption the next pass doubles the limit, up to Timeout.
const pruneFor = time.Minute

// pruner removes old versions of existing sandboxes by the policies of their templates.
type pruner struct {
	*Syncer
	seen   map[string]pruneMark     // workspaces that needed no prune in an earlier pass, by prefix
	longer map[string]time.Duration // time limits of prefixes whose prune was interrupted
	shared map[string]*sharedPrefix // prefixes of several sandboxes, collected before they are pruned
}

// pruneMark describes a workspace that needed no prune: its newest version, the day and the policy.
type pruneMark struct {
	version, day string
	policy       workspace.Policy
}

// sharedPrefix describes a prefix of several sandboxes. It is pruned once, with the policy that keeps most.
type sharedPrefix struct {
	policy workspace.Policy
	all    bool // at least one sandbox keeps all versions
	by     sandbox.Sandbox
	bases  map[string]bool
}

// RunPrunes runs a prune pass at every interval until the context ends. A later pass, here or on another server,
// does the work that a crash, an error of the store or a held lease left undone.
func (s *Syncer) RunPrunes(ctx context.Context, every time.Duration) {
	p := s.newPruner()
	for wait := every; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := p.pass(ctx)
		if err != nil && ctx.Err() == nil {
			s.log().WarnContext(ctx, "old versions could not be pruned; it is tried again", "error", err)
		}
		if wait = every; errors.Is(err, errNoList) {
			wait = min(every, expireSoon)
		}
	}
}

// errNoList is the error of a pass that could not read the list of workspaces.
var errNoList = errors.New("list workspaces")

// PruneAll runs one prune pass over all workspaces.
func (s *Syncer) PruneAll(ctx context.Context) error {
	return s.newPruner().pass(ctx)
}

func (s *Syncer) newPruner() *pruner {
	return &pruner{Syncer: s, seen: map[string]pruneMark{}, longer: map[string]time.Duration{}}
}

func (p *pruner) pass(ctx context.Context) (why error) {
	p.shared = map[string]*sharedPrefix{}
	failed := 0
	try := func(prefix string, h *sharedPrefix) {
		if err := p.prune(ctx, prefix, h); err != nil {
			failed, why = failed+1, err
		}
	}
	for after := ""; failed < mostRefused && ctx.Err() == nil; {
		page, err := p.o.Records.ListSaved(ctx, after, rowPage)
		if err != nil {
			return fmt.Errorf("%w: %w", errNoList, err)
		}
		for _, sb := range page {
			after = sb.ID
			plan := p.o.Plan(sb)
			if plan.Off || p.o.Known != nil && !p.o.Known(sb) {
				continue
			}
			h := &sharedPrefix{by: sb, bases: map[string]bool{sb.Synced.Version: true}}
			h.add(plan)
			if plan.Shared || !hasOwnPrefix(plan, sb) {
				p.gather(plan.Prefix, h)
			} else if !h.all && failed < mostRefused {
				try(plan.Prefix, h)
			}
		}
		if len(page) == 0 {
			break
		}
	}
	for prefix, h := range p.shared {
		if !h.all && failed < mostRefused && ctx.Err() == nil {
			try(prefix, h)
		}
	}
	return why
}

// add merges the policy of one sandbox into the policy of the prefix.
func (h *sharedPrefix) add(plan Plan) {
	h.policy.Last, h.policy.Daily = max(h.policy.Last, plan.KeepLast), max(h.policy.Daily, plan.KeepDaily)
	h.all = h.all || plan.KeepLast == 0 && plan.KeepDaily == 0
}

// gather adds a sandbox to its shared prefix. The versions that any sandbox of the prefix is synced with are kept.
func (p *pruner) gather(prefix string, h *sharedPrefix) {
	was := p.shared[prefix]
	if was == nil {
		p.shared[prefix] = h
		return
	}
	was.policy.Last, was.policy.Daily = max(was.policy.Last, h.policy.Last), max(was.policy.Daily, h.policy.Daily)
	was.all = was.all || h.all
	for base := range h.bases {
		was.bases[base] = true
	}
}

// prune prunes one prefix under the lease of one of its sandboxes. Concurrent pushes of the other sandboxes are
// safe because writes are conditional. Without conditional writes no prefix is shared.
func (p *pruner) prune(ctx context.Context, prefix string, h *sharedPrefix) error {
	repo := p.Repo(h.by)
	mark := pruneMark{h.by.Synced.Version, time.Now().UTC().Format(time.DateOnly), h.policy}
	if len(h.bases) == 1 && p.seen[prefix] == mark {
		return nil
	}
	longer, cut := p.longer[prefix]
	within := cmp.Or(longer, pruneFor)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o := workspace.PruneOptions{Policy: h.policy, Grace: p.o.Grace, Keep: h.bases}
	// An interrupted prune may have removed the versions but not all their packs.
	if !cut {
		due, err := repo.Prunable(ctx, o)
		if err != nil || !due {
			if err == nil {
				p.postpone(prefix, mark)
			}
			return err
		}
	}
	var done *workspace.Pruned
	free, err := p.o.IfFree(ctx, h.by.ID, func(ctx context.Context, sb sandbox.Sandbox) (err error) {
		o.Keep[sb.Synced.Version] = true
		done, err = repo.Prune(ctx, o)
		return err
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		p.longer[prefix] = min(2*within, Timeout)
	}
	if err != nil {
		return fmt.Errorf("prune versions of sandbox %s: %w", h.by.ID, err)
	}
	if !free {
		return nil // the lease is held; the next pass tries again
	}
	delete(p.longer, prefix)
	if p.o.Metrics != nil {
		p.o.Metrics.VersionsPruned.Add(float64(len(done.Removed)))
		p.o.Metrics.BytesPruned.Add(float64(done.Bytes))
	}
	p.log().InfoContext(ctx, "versions pruned", "sandbox_id", h.by.ID, "prefix", prefix, "kept", len(done.Kept),
		"removed", len(done.Removed), "objects", done.Packs, "bytes", done.Bytes, "waiting", done.Waiting)
	return nil
}

// mostMarks limits the memory for the marks in seen. At the limit all marks are dropped, and the workspaces are
// read again.
const mostMarks = 100_000

func (p *pruner) postpone(prefix string, mark pruneMark) {
	if len(p.seen) >= mostMarks {
		clear(p.seen)
	}
	p.seen[prefix] = mark
}
