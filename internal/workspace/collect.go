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

// trashKey is the key of the stored list of unreferenced objects.
const trashKey = "trash"

// trash maps the key of each unreferenced object to the time when a collection first found it unreferenced. Times
// are by the store's clock.
type trash map[string]time.Time

// collect deletes objects that no version has referred to for the grace period: packs, and objects of interrupted
// pushes in folders with version names.
//
// A running push has stored objects that no version refers to yet. The grace period usually protects them. As a
// second protection, collect rewrites HEAD before it deletes anything: a push that started earlier then cannot
// commit, starts again, and stores the missing objects again.
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

// unneeded lists all objects that no version refers to: packs, and the contents of folders with names of Berth
// versions. It never lists objects of other tools. The caller runs commit before it deletes the objects. Commit
// rewrites HEAD, so that no later version can refer to them, and fails if HEAD changed since unneeded read it.
func (r *Repo) unneeded(ctx context.Context) (all []blob.Entry, commit func() error, err error) {
	packs, err := r.list(ctx, packsFolder, blob.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	folders, err := r.list(ctx, "", blob.ListOptions{Folders: true})
	if err != nil {
		return nil, nil, err
	}
	head, tag, err := r.readHead(ctx) // read after the lists, so that every version committed until now counts
	if err != nil {
		return nil, nil, err
	}
	live, err := r.referenced(ctx, head)
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

// fence rewrites HEAD, so that a push that started before cannot commit.
func (r *Repo) fence(ctx context.Context, head Head, tag blob.Tag) error {
	head.Prunes++
	_, err := r.writeHead(ctx, &head, tag)
	return err
}

// list returns all objects below a prefix. After an error it returns none, because a partial list would look like
// missing objects.
func (r *Repo) list(ctx context.Context, prefix string, o blob.ListOptions) (all []blob.Entry, err error) {
	for e, err := range r.Store.List(ctx, r.Prefix+prefix, o) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Prefix+prefix, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// referenced returns the keys of all packs that versions refer to, and the folder of each version. It fails if the
// manifest of any version cannot be read, because the packs of that version are then unknown.
func (r *Repo) referenced(ctx context.Context, head *Head) (map[string]bool, error) {
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

// readTrash reads the stored trash and the current time of the store. It gets the time by writing the object again;
// a dry run uses the local clock.
func (r *Repo) readTrash(ctx context.Context, dry bool) (trash, time.Time, error) {
	known := trash{}
	text, _, err := r.read(ctx, trashKey, maxManifest)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		known = trash{} // without a readable list all grace periods start again
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
