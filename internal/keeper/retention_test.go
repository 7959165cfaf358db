package keeper_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// graves is a keeper whose sandboxes have records.
type graves struct {
	*world
	db      *store.DB
	pattern string // of prefixes, over ID and OWNER
	shared  bool
}

func newGraves(t *testing.T) *graves {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir(), LeaseTTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	g := &graves{world: newWorld(t), db: db, pattern: "docs/a/ID/"}
	g.Records = db
	g.Plan = func(s sandbox.Sandbox) keeper.Plan {
		return keeper.Plan{Prefix: strings.NewReplacer("ID", s.ID, "OWNER", s.Owner.ID).Replace(g.pattern), Shared: g.shared}
	}
	return g
}

// lives is a sandbox with a record and a version.
func (g *graves) lives(owner string) sandbox.Sandbox {
	g.Helper()
	s, _, err := g.db.In("acme").Intend(g.Context(), store.Intent{
		Kind: sandbox.OwnerConversation, Owner: owner, Want: sandbox.WantRunning, Spec: sandbox.Spec{Template: "default", Driver: "dirs"},
	})
	if err == nil {
		s.Instance, s.Incarnation = sandbox.InstanceID(s.ID), 1
		err = os.Mkdir(filepath.Join(g.root, s.ID), 0o755)
	}
	if err != nil {
		g.Fatal(err)
	}
	s = g.restore(s)
	g.write(s, "of", s.ID)
	return g.save(s)
}

// dies deletes a sandbox and ends it.
func (g *graves) dies(s sandbox.Sandbox) sandbox.Sandbox {
	g.Helper()
	_, err := g.db.In("acme").Delete(g.Context(), s.ID, false, "", "")
	if err != nil {
		g.Fatal(err)
	}
	grant, err := g.db.Lease(g.Context(), store.LeaseSandbox, s.ID, "holder")
	for _, event := range []sandbox.Event{sandbox.EventEnd, sandbox.EventEnded} {
		if err == nil {
			s, err = g.db.Commit(g.Context(), grant.Lease, sandbox.Change{Event: event, Synced: s.Synced}, store.Due{})
		}
	}
	if err != nil {
		g.Fatal(err)
	}
	return s
}

func (g *graves) expire() {
	g.Helper()
	if err := g.Expire(g.Context()); err != nil {
		g.Error(err)
	}
}

func (g *graves) has(s sandbox.Sandbox, want int) {
	g.Helper()
	n := 0
	for _, err := range g.Repo(s).Versions(g.Context()) {
		if err != nil {
			g.Error(err)
		}
		n++
	}
	if n != want {
		g.Errorf("%s has %d versions, not %d", s.Owner.ID, n, want)
	}
}

// The versions of a deleted sandbox are there until their time is over, and then nothing of them is left.
func TestVersionsOfDeletedSandboxesExpire(t *testing.T) {
	testkit.Proves(t, "O1")
	g := newGraves(t)
	alive, dead := g.lives("alive"), g.dies(g.lives("dead"))
	for _, age := range []time.Duration{0, time.Hour} {
		g.Retention = age
		g.expire()
		g.has(dead, 1)
	}
	g.Retention = time.Microsecond
	unknown := map[string]bool{dead.ID: true}
	g.Known = func(s sandbox.Sandbox) bool { return !unknown[s.ID] }
	g.expire()
	g.has(dead, 1) // whose template is not known now
	clear(unknown)
	g.expire()
	g.has(dead, 0)
	g.has(alive, 1)
	for e, err := range g.Store.List(t.Context(), g.Plan(dead).Prefix, blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
	x := g.watch()
	g.expire()
	if len(x.asked) > 0 {
		t.Errorf("asked again: %q", x.asked)
	}
}

// Versions that a sandbox of the same owner has as well stay for as long as it does, and as long as its own
// are kept; so do those of a workspace in common.
func TestVersionsOfOthersDoNotExpire(t *testing.T) {
	testkit.Proves(t, "O1")
	g := newGraves(t)
	g.pattern, g.Retention = "docs/a/OWNER/", time.Microsecond
	first := g.dies(g.lives("same"))
	second := g.lives("same")
	g.expire()
	g.has(second, 2)
	if err := g.PurgeEnded(t.Context(), first); sandbox.CodeOf(err) != api.CodeConflict {
		t.Errorf("purge: %v", err)
	}
	if err := g.MarkPurge(t.Context(), first); sandbox.CodeOf(err) != api.CodeConflict {
		t.Errorf("mark: %v", err)
	}
	second = g.dies(second)
	g.expire()
	g.has(second, 0)
	g.expire()
	if due, err := g.db.Unpurged(t.Context(), g.Retention, "", 0); err != nil || len(due) > 0 {
		t.Errorf("left: %+v, %v", due, err)
	}

	third := g.dies(g.lives("common"))
	g.shared = true
	g.expire()
	g.has(third, 1)
}

// A purge that was begun does not go on when somebody else has come to the same place meanwhile.
func TestPurgeStopsForANewcomer(t *testing.T) {
	testkit.Proves(t, "O1")
	g := newGraves(t)
	g.pattern = "docs/a/OWNER/"
	first := g.dies(g.lives("same"))
	x := &interrupted{Store: g.Store}
	g.Store = x
	var heir sandbox.Sandbox
	x.before = func() { heir = g.lives("same") } // HEAD is gone by then
	if err := g.Purge(t.Context(), first); sandbox.CodeOf(err) != api.CodeConflict {
		t.Errorf("%v", err)
	}
	if v, err := g.Repo(heir).Verify(t.Context()); err != nil || v.Versions != 1 || len(v.Problems) > 0 {
		t.Errorf("the newcomer's: %+v, %v", v, err)
	}
}

// interrupted is a store in which something happens before the second delete.
type interrupted struct {
	blob.Store
	before func()
	n      int
}

func (x *interrupted) Delete(ctx context.Context, keys ...string) error {
	err := x.Store.Delete(ctx, keys...)
	if x.n++; x.n == 1 {
		x.before()
	}
	return err
}

// A store that refuses to delete is asked again later, and until then somebody can see it.
func TestRefusedPurgeIsTriedAgain(t *testing.T) {
	testkit.Proves(t, "O1")
	g := newGraves(t)
	s, old := g.dies(g.lives("asked")), g.dies(g.lives("old"))
	x := &denying{Store: g.Store}
	g.Store = x
	x.all = true
	if err := g.PurgeEnded(t.Context(), s); sandbox.CodeOf(err) != api.CodeBlobDenied || !strings.Contains(err.Error(), "later") {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := g.Expire(t.Context()); sandbox.CodeOf(err) != api.CodeBlobDenied {
			t.Errorf("%v", err)
		}
		if n, why := g.Overdue(); n != 1 || sandbox.CodeOf(why) != api.CodeBlobDenied {
			t.Errorf("overdue: %d, %v", n, why)
		}
	}
	x.all = false
	g.expire()
	g.has(s, 0)
	g.has(old, 1)
	if n, why := g.Overdue(); n != 0 || why != nil {
		t.Errorf("overdue: %d, %v", n, why)
	}

	// The mark of one that is on its way out outlives a store that refuses some deletes of many.
	other := g.lives("marked")
	if err := g.MarkPurge(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	other.DeletedAt, other.Purge = time.Now(), sandbox.PurgeYes
	x.some = true
	if err := g.End(t.Context(), other); sandbox.CodeOf(err) != api.CodeBlobDenied {
		t.Errorf("%v", err)
	}
	x.some = false
	if err := g.End(t.Context(), other); err != nil {
		t.Error(err)
	}
	for e, err := range g.Store.List(t.Context(), g.Plan(other).Prefix, blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
}

// denying is a store that refuses to delete, everything or what is in packs.
type denying struct {
	blob.Store
	all, some bool
}

func (d *denying) Delete(ctx context.Context, keys ...string) error {
	refused := sandbox.Errorf("delete objects", api.CodeBlobDenied, "access denied")
	if d.all {
		return refused
	}
	var err error
	for _, key := range keys {
		if d.some && strings.Contains(key, "packs/") {
			err = refused
			continue
		}
		err = errors.Join(err, d.Store.Delete(ctx, key))
	}
	return err
}

// It goes on by itself until it is told to stop.
func TestRetentionRuns(t *testing.T) {
	g := newGraves(t)
	s := g.dies(g.lives("dead"))
	g.Retention = time.Microsecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		g.Keeper.Run(ctx)
		close(ended)
	}()
	testkit.Eventually(t, time.Minute, func() error {
		empty, err := g.Repo(s).Empty(ctx)
		if err == nil && !empty {
			err = errors.New("its versions are there")
		}
		return err
	})
	stop()
	<-ended
}

// An end that is to take the versions with it does not wait for a store that does not answer: they go once it does.
// So do those that a server from before marked in the store.
func TestVersionsGoOnceTheStoreAnswers(t *testing.T) {
	testkit.Proves(t, "O1")
	g := newGraves(t)
	marked, kept, asked := g.lives("marked"), g.lives("kept"), g.lives("asked")
	if _, err := g.Store.Put(t.Context(), g.Plan(marked).Prefix+"purge", strings.NewReader(""), 0, blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []sandbox.Sandbox{marked, kept} { // as a server from before deletes
		g.dies(s)
		if err := g.db.SetPurge(t.Context(), s.ID, sandbox.PurgeUnknown); err != nil {
			t.Fatal(err)
		}
	}
	x := g.watch()
	x.fail = sandbox.Errorf("ask the store", api.CodeBlobUnreachable, "no answer")
	if err := g.MarkPurge(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	asked = g.dies(asked)
	if err := g.End(t.Context(), asked); err != nil || asked.Purge != sandbox.PurgeYes {
		t.Errorf("%q, %v", asked.Purge, err)
	}
	if err := g.Expire(t.Context()); !keeper.Unavailable(err) {
		t.Errorf("while the store is away: %v", err)
	}
	x.fail = nil
	g.expire()
	g.has(marked, 0)
	g.has(kept, 1)
	g.has(asked, 0)
	x.asked = nil
	g.expire()
	if len(x.asked) > 0 {
		t.Errorf("asked again: %q", x.asked)
	}
}

// The end of a sandbox without a purge asks the store for nothing.
func TestEndAsksNoStore(t *testing.T) {
	testkit.Proves(t, "O1", "S7")
	g := newGraves(t)
	s := g.lives("goes")
	x := g.watch()
	s.DeletedAt = time.Now()
	for _, s.SkipSave = range []bool{false, true} {
		if err := g.End(t.Context(), s); err != nil || len(x.asked) > 0 {
			t.Errorf("asked %q, %v", x.asked, err)
		}
	}
}
