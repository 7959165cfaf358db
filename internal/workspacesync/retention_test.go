package workspacesync_test

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
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspacesync"
)

// graves is a syncer whose sandboxes have records.
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
	g.Opts().Records = db.Versions()
	g.Opts().Plan = func(sb sandbox.Sandbox) workspacesync.Plan {
		return workspacesync.Plan{Prefix: strings.NewReplacer("ID", sb.ID, "OWNER", sb.Owner.ID).Replace(g.pattern), Shared: g.shared}
	}
	return g
}

// lives is a sandbox with a record and a version.
func (g *graves) lives(owner string) sandbox.Sandbox {
	g.Helper()
	sb, _, err := g.db.In("acme").RequestSandbox(g.Context(), store.SandboxRequest{
		Kind: sandbox.OwnerConversation, Owner: owner, Want: sandbox.WantRunning, Spec: sandbox.Spec{Template: "default", Driver: "dirs"},
	})
	if err == nil {
		sb.Instance, sb.Incarnation = sandbox.InstanceID(sb.ID), 1
		err = os.Mkdir(filepath.Join(g.root, sb.ID), 0o755)
	}
	if err != nil {
		g.Fatal(err)
	}
	sb = g.restore(sb)
	g.write(sb, "of", sb.ID)
	return g.save(sb)
}

// dies deletes a sandbox and ends it.
func (g *graves) dies(sb sandbox.Sandbox) sandbox.Sandbox {
	g.Helper()
	_, err := g.db.In("acme").Delete(g.Context(), sb.ID, false, "", "")
	if err != nil {
		g.Fatal(err)
	}
	grant, err := g.db.Leases().Lease(g.Context(), store.LeaseSandbox, sb.ID, "holder")
	for _, event := range []sandbox.Event{sandbox.EventEnd, sandbox.EventEnded} {
		if err == nil {
			sb, err = g.db.Commit(g.Context(), grant.Lease, sandbox.Change{Event: event, Synced: sb.Synced}, store.Due{})
		}
	}
	if err != nil {
		g.Fatal(err)
	}
	return sb
}

func (g *graves) expire() {
	g.Helper()
	if err := g.Expire(g.Context()); err != nil {
		g.Error(err)
	}
}

func (g *graves) has(sb sandbox.Sandbox, want int) {
	g.Helper()
	n := 0
	for _, err := range g.Repo(sb).Versions(g.Context()) {
		if err != nil {
			g.Error(err)
		}
		n++
	}
	if n != want {
		g.Errorf("%s has %d versions, not %d", sb.Owner.ID, n, want)
	}
}

// The versions of a deleted sandbox are there until their time is over, and then nothing of them is left.
func TestVersionsOfDeletedSandboxesExpire(t *testing.T) {
	testkit.Proves(t, "O1")
	g := newGraves(t)
	alive, dead := g.lives("alive"), g.dies(g.lives("dead"))
	for _, age := range []time.Duration{0, time.Hour} {
		g.Opts().Retention = age
		g.expire()
		g.has(dead, 1)
	}
	g.Opts().Retention = time.Microsecond
	unknown := map[string]bool{dead.ID: true}
	g.Opts().Known = func(sb sandbox.Sandbox) bool { return !unknown[sb.ID] }
	g.expire()
	g.has(dead, 1) // whose template is not known now
	clear(unknown)
	g.expire()
	g.has(dead, 0)
	g.has(alive, 1)
	for e, err := range g.Opts().Store.List(t.Context(), g.Opts().Plan(dead).Prefix, blob.ListOptions{}) {
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
	g.pattern, g.Opts().Retention = "docs/a/OWNER/", time.Microsecond
	first := g.dies(g.lives("same"))
	second := g.lives("same")
	g.expire()
	g.has(second, 2)
	if err := g.PurgeEnded(t.Context(), first); fault.CodeOf(err) != api.CodeConflict {
		t.Errorf("purge: %v", err)
	}
	if err := g.MarkPurge(t.Context(), first); fault.CodeOf(err) != api.CodeConflict {
		t.Errorf("mark: %v", err)
	}
	second = g.dies(second)
	g.expire()
	g.has(second, 0)
	g.expire()
	if due, err := g.db.Versions().ListPurgeable(t.Context(), g.Opts().Retention, "", 0); err != nil || len(due) > 0 {
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
	x := &interrupted{Store: g.Opts().Store}
	g.Opts().Store = x
	var heir sandbox.Sandbox
	x.before = func() { heir = g.lives("same") } // HEAD is gone by then
	if err := g.Purge(t.Context(), first); fault.CodeOf(err) != api.CodeConflict {
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
	sb, old := g.dies(g.lives("asked")), g.dies(g.lives("old"))
	x := &denying{Store: g.Opts().Store}
	g.Opts().Store = x
	x.all = true
	if err := g.PurgeEnded(t.Context(), sb); fault.CodeOf(err) != api.CodeBlobDenied || !strings.Contains(err.Error(), "later") {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := g.Expire(t.Context()); fault.CodeOf(err) != api.CodeBlobDenied {
			t.Errorf("%v", err)
		}
		if n, why := g.Overdue(); n != 1 || fault.CodeOf(why) != api.CodeBlobDenied {
			t.Errorf("overdue: %d, %v", n, why)
		}
	}
	x.all = false
	g.expire()
	g.has(sb, 0)
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
	if err := g.End(t.Context(), other); fault.CodeOf(err) != api.CodeBlobDenied {
		t.Errorf("%v", err)
	}
	x.some = false
	if err := g.End(t.Context(), other); err != nil {
		t.Error(err)
	}
	for e, err := range g.Opts().Store.List(t.Context(), g.Opts().Plan(other).Prefix, blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
}

// denying is a store that refuses to delete, everything or what is in packs.
type denying struct {
	blob.Store
	all, some bool
}

func (d *denying) Delete(ctx context.Context, keys ...string) error {
	refused := fault.Errorf("delete objects", api.CodeBlobDenied, "access denied")
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
	sb := g.dies(g.lives("dead"))
	g.Opts().Retention = time.Microsecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		g.Syncer.Run(ctx)
		close(ended)
	}()
	testkit.Eventually(t, time.Minute, func() error {
		empty, err := g.Repo(sb).Empty(ctx)
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
	if _, err := g.Opts().Store.Put(t.Context(), g.Opts().Plan(marked).Prefix+"purge", strings.NewReader(""), 0, blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, sb := range []sandbox.Sandbox{marked, kept} { // as a server from before deletes
		g.dies(sb)
		if err := g.db.Versions().SetPurge(t.Context(), sb.ID, sandbox.PurgeUnknown); err != nil {
			t.Fatal(err)
		}
	}
	x := g.watch()
	x.fail = fault.Errorf("ask the store", api.CodeBlobUnreachable, "no answer")
	if err := g.MarkPurge(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	asked = g.dies(asked)
	if err := g.End(t.Context(), asked); err != nil || asked.Purge != sandbox.PurgeYes {
		t.Errorf("%q, %v", asked.Purge, err)
	}
	if err := g.Expire(t.Context()); !workspacesync.Unavailable(err) {
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
	sb := g.lives("goes")
	x := g.watch()
	sb.DeletedAt = time.Now()
	for _, sb.SkipSave = range []bool{false, true} {
		if err := g.End(t.Context(), sb); err != nil || len(x.asked) > 0 {
			t.Errorf("asked %q, %v", x.asked, err)
		}
	}
}
