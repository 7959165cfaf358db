package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// Policy selects the versions to keep. The newest version is always kept. The zero policy keeps all versions.
type Policy struct {
	Last  int // number of newest versions to keep
	Daily int // number of past days; the newest version of each of them is kept
}

// DefaultGrace is the time for which unreferenced objects are kept. It is longer than a push takes, so that no push
// has to start again.
const DefaultGrace = 24 * time.Hour

// PruneOptions configure a prune.
type PruneOptions struct {
	Policy Policy
	Grace  time.Duration // zero means DefaultGrace
	DryRun bool
	Keep   map[string]bool // ids of versions that are kept regardless of the policy
}

// Pruned is the result of a prune, or of a dry run.
type Pruned struct {
	Kept    []Version `json:"kept"`
	Removed []Version `json:"removed"`
	Packs   int       `json:"packs"`   // number of deleted objects
	Bytes   int64     `json:"bytes"`   // total size of the deleted objects
	Waiting int       `json:"waiting"` // number of unreferenced objects within the grace period
}

// keep splits versions, sorted newest first, by the policy.
func (p Policy) keep(versions []Version, now time.Time) (kept, removed []Version) {
	if p == (Policy{}) {
		return versions, nil
	}
	days, first := map[string]bool{}, now.AddDate(0, 0, -p.Daily)
	for i, v := range versions {
		day := v.At.UTC().Format(time.DateOnly)
		daily := !days[day] && v.At.After(first)
		if i == 0 || i < p.Last || daily {
			kept = append(kept, v)
			days[day] = true
			continue
		}
		removed = append(removed, v)
	}
	return kept, removed
}

// divide splits versions by the policy, and keeps all versions in o.Keep.
func (o PruneOptions) divide(versions []Version, now time.Time) (kept, removed []Version) {
	kept, removed = o.Policy.keep(versions, now)
	if !slices.ContainsFunc(removed, func(v Version) bool { return o.Keep[v.ID] }) {
		return kept, removed
	}
	going := map[string]bool{}
	for _, v := range removed {
		going[v.ID] = !o.Keep[v.ID]
	}
	kept, removed = nil, nil
	for _, v := range versions {
		if going[v.ID] {
			removed = append(removed, v)
		} else {
			kept = append(kept, v)
		}
	}
	return kept, removed
}

// Prunable reports whether a prune would remove a version or delete objects. It needs only a few reads and serves
// scans of many workspaces, most of which need no prune.
func (r *Repo) Prunable(ctx context.Context, o PruneOptions) (bool, error) {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	head, _, err := r.readHead(ctx)
	if errors.Is(err, errNoHead) {
		return false, nil
	}
	var all []Version
	if err == nil {
		r.walk(ctx, head, func(v Version, failed error) bool {
			all, err = append(all, v), failed
			return failed == nil
		})
	}
	if err != nil {
		return false, err
	}
	if _, removed := o.divide(all, r.now()); len(removed) > 0 {
		return true, nil
	}
	known, now, err := r.readTrash(ctx, true)
	for _, since := range known {
		if now.Sub(since) >= o.Grace {
			return true, err
		}
	}
	return false, err
}

// Prune removes versions from the history by the policy. It deletes objects that have been unreferenced for the
// grace period. Concurrent pushes are safe.
func (r *Repo) Prune(ctx context.Context, o PruneOptions) (*Pruned, error) {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	for try := 1; ; try++ {
		done, err := r.prune(ctx, o)
		if !errors.Is(err, blob.ErrPrecondition) || try == syncTries {
			return done, err
		}
	}
}

func (r *Repo) prune(ctx context.Context, o PruneOptions) (*Pruned, error) {
	head, tag, err := r.readHead(ctx)
	if errors.Is(err, errNoHead) {
		return new(Pruned), nil
	}
	if err != nil {
		return nil, err
	}
	all, pages, err := r.history(ctx, head)
	if err != nil {
		return nil, err
	}
	done := new(Pruned)
	done.Kept, done.Removed = o.divide(all, r.now())
	if len(done.Removed) > 0 && !o.DryRun {
		if err := r.rewrite(ctx, head, tag, done.Kept); err != nil {
			return nil, err
		}
		if err := r.deleteRemoved(ctx, done.Removed, pages); err != nil {
			return nil, err
		}
	}
	return done, r.collect(ctx, done, o)
}

// history returns all versions, newest first, and the keys of all log objects.
func (r *Repo) history(ctx context.Context, head *Head) (all []Version, pages []string, err error) {
	r.walk(ctx, head, func(v Version, failed error) bool {
		err = failed
		all = append(all, v)
		return failed == nil
	})
	if err != nil {
		return nil, nil, err
	}
	for e, err := range r.Store.List(ctx, r.Prefix+logFolder, blob.ListOptions{}) {
		if err != nil {
			return nil, nil, fmt.Errorf("list the history: %w", err)
		}
		pages = append(pages, strings.TrimPrefix(e.Key, r.Prefix))
	}
	return all, pages, nil
}

// rewrite writes HEAD and new log objects with only the kept versions.
func (r *Repo) rewrite(ctx context.Context, head *Head, tag blob.Tag, kept []Version) error {
	next := Head{Format: 1, Lineage: head.Lineage, Sequence: head.Sequence, Prunes: head.Prunes + 1}
	pages := slices.Collect(slices.Chunk(kept, historyPage))
	for i, page := range slices.Backward(pages) {
		if i == 0 {
			next.Versions = page
			break
		}
		text, err := json.Marshal(logPage{page, next.Log})
		if err != nil {
			return err
		}
		key := newPageKey()
		if _, err := r.put(ctx, key, text, blob.PutOptions{}); err != nil {
			return fmt.Errorf("store the history: %w", err)
		}
		next.Log = key
	}
	_, err := r.writeHead(ctx, &next, tag)
	return err
}

// deleteRemoved deletes the manifests of removed versions, the files of removed plain versions, and the given log
// objects. Most objects that a failure leaves behind are deleted by a later prune.
func (r *Repo) deleteRemoved(ctx context.Context, removed []Version, pages []string) error {
	keys := make([]string, 0, len(removed)+len(pages))
	for _, v := range removed {
		keys = append(keys, r.Prefix+v.state())
		if v.Layout != Plain {
			continue
		}
		for e, err := range r.Store.List(ctx, r.Prefix+v.ID+"/", blob.ListOptions{}) {
			if err != nil {
				return fmt.Errorf("list version %s: %w", v.ID, err)
			}
			if !ours(strings.TrimPrefix(e.Key, r.Prefix+v.ID+"/")) { // another version may use a manifest in this folder
				keys = append(keys, e.Key)
			}
		}
	}
	for _, page := range pages {
		keys = append(keys, r.Prefix+page)
	}
	if err := r.Store.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("delete what was pruned: %w", err)
	}
	return nil
}
