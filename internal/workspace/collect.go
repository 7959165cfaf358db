package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// trashKey is the list of objects that no version referred to when they were last looked for.
const trashKey = "trash"

// trash is since when each of them has been so, by the store's clock.
type trash map[string]time.Time

// collect deletes objects that no version has referred to for the grace: packs, and what pushes that never
// came to their end have left under the names of versions.
//
// A push that is under way has objects that no version refers to yet. The grace spares most of them; what
// makes it safe is that HEAD is written anew before anything is deleted, so that a push which began before
// cannot commit any more, however slow it is. It begins again, and sends again what it needs.
func (r *Repo) collect(ctx context.Context, done *Pruned, o PruneOptions) error {
	for try := 1; ; try++ {
		done.Packs, done.Bytes, done.Waiting = 0, 0, 0
		err := r.collectOnce(ctx, done, o)
		if !errors.Is(err, blob.ErrPrecondition) || try == syncTries {
			return err
		}
	}
}

func (r *Repo) collectOnce(ctx context.Context, done *Pruned, o PruneOptions) error {
	known, now, err := r.readTrash(ctx, o.DryRun)
	if err != nil {
		return err
	}
	objects, commit, err := r.unneeded(ctx)
	if err != nil {
		return err
	}
	next := trash{}
	var gone []string
	for _, e := range objects {
		key := strings.TrimPrefix(e.Key, r.Prefix)
		since, seen := known[key]
		switch {
		case seen && now.Sub(since) >= o.Grace:
			gone = append(gone, e.Key)
			done.Packs++
			done.Bytes += e.Size
		case seen:
			next[key] = since
			done.Waiting++
		default:
			next[key] = now
			done.Waiting++
		}
	}
	if o.DryRun {
		return nil
	}
	if len(gone) > 0 {
		if err := commit(); err != nil {
			return err
		}
		if err := r.Store.Delete(ctx, gone...); err != nil {
			return fmt.Errorf("delete packs: %w", err)
		}
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	_, err = r.put(ctx, trashKey, text, blob.PutOptions{})
	return err
}

// unneeded is every object that no version refers to: packs, and what is in folders that have the name of
// a version of Berth's own making. What other tools put beside them is not ours to delete. Commit makes
// sure that none of them is needed from now on; it fails if HEAD has moved since.
func (r *Repo) unneeded(ctx context.Context) (all []blob.Entry, commit func() error, err error) {
	packs, err := r.list(ctx, packsFolder, blob.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	folders, err := r.list(ctx, "", blob.ListOptions{Folders: true})
	if err != nil {
		return nil, nil, err
	}
	head, tag, err := r.readHead(ctx) // after the lists: whatever was committed until now stays
	if err != nil {
		return nil, nil, err
	}
	live, err := r.live(ctx, head)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range packs {
		if !live[strings.TrimPrefix(e.Key, r.Prefix)] {
			all = append(all, e)
		}
	}
	for _, e := range folders {
		name := strings.TrimPrefix(e.Key, r.Prefix)
		if !e.Folder || live[name] || !isOwnID(strings.TrimSuffix(name, "/")) {
			continue
		}
		left, err := r.list(ctx, name, blob.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		all = append(all, left...)
	}
	return all, func() error { return r.fence(ctx, *head, tag) }, nil
}

// fence writes HEAD anew, so that no push which began before commits.
func (r *Repo) fence(ctx context.Context, head Head, tag blob.Tag) error {
	head.Prunes++
	_, err := r.writeHead(ctx, &head, tag)
	return err
}

// list lists objects, all or none: an unreadable list is not an empty list.
func (r *Repo) list(ctx context.Context, prefix string, o blob.ListOptions) (all []blob.Entry, err error) {
	for e, err := range r.Store.List(ctx, r.Prefix+prefix, o) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Prefix+prefix, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// live is every pack that a version refers to, and the folder of every version. A version that cannot be
// read stops the collection: what it refers to is not known.
func (r *Repo) live(ctx context.Context, head *Head) (map[string]bool, error) {
	all, _, err := r.history(ctx, head)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, v := range all {
		m, err := r.manifestOf(ctx, v)
		if err != nil {
			return nil, err
		}
		live[v.ID+"/"] = true
		for _, p := range m.Packs {
			live[p.Key] = true
		}
	}
	return live, nil
}

// readTrash reads the list, and the store's clock off a write of it.
func (r *Repo) readTrash(ctx context.Context, dry bool) (trash, time.Time, error) {
	known := trash{}
	text, _, err := r.read(ctx, trashKey, maxManifest)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		known = trash{} // everything waits anew
	}
	if dry {
		return known, r.now(), nil
	}
	if _, err := r.put(ctx, trashKey, text, blob.PutOptions{}); err != nil {
		return nil, time.Time{}, err
	}
	o, err := r.Store.Get(ctx, r.Prefix+trashKey, blob.GetOptions{})
	if err != nil {
		return nil, time.Time{}, err
	}
	return known, o.At, o.Body.Close()
}
