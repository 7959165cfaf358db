package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// pruneFor bounds the prune of one workspace: its sandbox's lease is held as long, and a save waits for it. A prune
// that was cut short has twice the time in the next pass, up to Timeout.
const pruneFor = time.Minute

// pruner removes old versions of sandboxes that are not deleted, by the policies of their templates.
type pruner struct {
	*Keeper
	seen   map[string]pruneMark     // what the last pass found, by prefix
	longer map[string]time.Duration // prefixes whose prune was cut short, and how long it may take next
	shared map[string]*sharedHow    // prefixes of several sandboxes, gathered before they are pruned
}

// pruneMark is a workspace that needed no prune.
type pruneMark struct {
	version, day string
	policy       workspace.Policy
}

// sharedHow is how a prefix of several sandboxes is pruned: once, by the policy that keeps most.
type sharedHow struct {
	policy workspace.Policy
	all    bool // one of them keeps everything
	by     sandbox.Sandbox
	bases  map[string]bool
}

// RunPrunes prunes every interval until the context ends. What a crash, a refusal or a busy lease leaves undone is
// done by a later pass, here or at another server.
func (k *Keeper) RunPrunes(ctx context.Context, every time.Duration) {
	p := k.newPruner()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.pass(ctx); err != nil && ctx.Err() == nil {
			k.log().WarnContext(ctx, "old versions could not be pruned; it is tried again", "error", err)
		}
	}
}

// PruneAll is one pass over all workspaces.
func (k *Keeper) PruneAll(ctx context.Context) error {
	return k.newPruner().pass(ctx)
}

func (k *Keeper) newPruner() *pruner {
	return &pruner{Keeper: k, seen: map[string]pruneMark{}, longer: map[string]time.Duration{}}
}

func (p *pruner) pass(ctx context.Context) (why error) {
	p.shared = map[string]*sharedHow{}
	failed := 0
	try := func(prefix string, h *sharedHow) {
		if err := p.prune(ctx, prefix, h); err != nil {
			failed, why = failed+1, err
		}
	}
	for after := ""; failed < mostRefused && ctx.Err() == nil; {
		page, err := p.Records.Saved(ctx, after, besidePage)
		if err != nil {
			return err
		}
		for _, s := range page {
			after = s.ID
			plan := p.Plan(s)
			if plan.Off || p.Known != nil && !p.Known(s) {
				continue
			}
			h := &sharedHow{by: s, bases: map[string]bool{s.Synced.Version: true}}
			h.add(plan)
			if plan.Shared || !alone(plan, s) {
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

// add takes a sandbox's policy into the one of its prefix.
func (h *sharedHow) add(plan Plan) {
	h.policy.Last, h.policy.Daily = max(h.policy.Last, plan.KeepLast), max(h.policy.Daily, plan.KeepDaily)
	h.all = h.all || plan.KeepLast == 0 && plan.KeepDaily == 0
}

// gather adds a sandbox to its prefix: what the others keep, and were last the same as, is kept.
func (p *pruner) gather(prefix string, h *sharedHow) {
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

// prune prunes one prefix under the lease of one of its sandboxes. Pushes of the others may go on: the store's
// conditional writes keep them apart, and without those no prefix is shared.
func (p *pruner) prune(ctx context.Context, prefix string, h *sharedHow) error {
	repo := p.Repo(h.by)
	mark := pruneMark{h.by.Synced.Version, time.Now().UTC().Format(time.DateOnly), h.policy}
	if len(h.bases) == 1 && p.seen[prefix] == mark {
		return nil
	}
	longer, cut := p.longer[prefix]
	within := cmp.Or(longer, pruneFor)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o := workspace.PruneOptions{Policy: h.policy, Grace: p.Grace, Keep: h.bases}
	// One that was cut short may have removed all versions that are to go, and left their bytes.
	if !cut {
		due, err := repo.Prunable(ctx, o)
		if err != nil || !due {
			if err == nil {
				p.rest(prefix, mark)
			}
			return err
		}
	}
	var done *workspace.Pruned
	free, err := p.IfFree(ctx, h.by.ID, func(ctx context.Context, s sandbox.Sandbox) (err error) {
		o.Keep[s.Synced.Version] = true
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
		return nil // it is being worked on; the next pass finds it again
	}
	delete(p.longer, prefix)
	if p.Metrics != nil {
		p.Metrics.VersionsPruned.Add(float64(len(done.Removed)))
		p.Metrics.BytesPruned.Add(float64(done.Bytes))
	}
	p.log().InfoContext(ctx, "versions pruned", "sandbox_id", h.by.ID, "prefix", prefix, "kept", len(done.Kept),
		"removed", len(done.Removed), "objects", done.Packs, "bytes", done.Bytes, "waiting", done.Waiting)
	return nil
}

// mostMarks bounds what is remembered of workspaces that needed no prune; without it they are looked at again.
const mostMarks = 100_000

func (p *pruner) rest(prefix string, mark pruneMark) {
	if len(p.seen) >= mostMarks {
		clear(p.seen)
	}
	p.seen[prefix] = mark
}
