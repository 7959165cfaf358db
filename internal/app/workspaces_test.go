package app_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// tangle makes a workspace of everything that can be saved, and look tells what is there of it.
const (
	tangle = `set -e; mkdir -p src/deep empty; echo one > src/deep/a; printf 'x\n' > run; chmod 755 run; chmod 700 empty
ln -s src/deep/a link; ln -s /nowhere/at/all dangling; echo "odd" > "$(printf 'new\nline é')"; touch -d '2001-02-03 04:05:06.789' src/deep/a`
	look = `find . -mindepth 1 ! -name '.sandbox-state*' -printf '%y %m %l %P\n' | sed 's/^l [0-7]*/l/' | sort; stat -c %.3Y src/deep/a; cat src/deep/a run`
)

func (b box) versions() (all []api.Version) {
	b.Helper()
	for v, err := range b.c.Sandboxes.Versions(b.Context(), b.name) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// What was in the workspace is there again after its instance and volume are gone: with its modes, times,
// links and empty folders.
func TestWorkspaceComesBack(t *testing.T) {
	testkit.Proves(t, "V3", "S9", "O1", "S14")
	t.Parallel()
	onLocal(t, func(t *testing.T, env []string) {
		p := start(t, env)
		b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
		if got := b.versions(); len(got) != 0 {
			t.Errorf("a new sandbox has versions: %+v", got)
		}
		b.sh(tangle)
		before := b.sh(look).Stdout
		b.sh("echo gone > ~/home; echo gone > /tmp/tmp")
		for i, do := range []func() (api.Sandbox, error){
			func() (api.Sandbox, error) { return b.c.Sandboxes.Terminate(t.Context(), "box") },
			func() (api.Sandbox, error) { return b.c.Sandboxes.Archive(t.Context(), "box") },
			func() (api.Sandbox, error) { return b.c.Sandboxes.Terminate(t.Context(), "box") },
		} {
			s, err := do()
			if err != nil || s.Instance != "" {
				t.Fatalf("%+v, %v", s, err)
			}
			if after := b.sh(look).Stdout; after != before {
				t.Fatalf("before:\n%safter:\n%s", before, after)
			}
			b.says("ls ~/home /tmp/tmp 2>/dev/null", "")
			if got := len(b.versions()); got != 1 {
				t.Errorf("%d versions after end %d, and nothing had changed", got, i)
			}
			got, err := b.c.Sandboxes.Get(t.Context(), "box")
			if err != nil || got.Incarnation != int64(i)+2 {
				t.Errorf("incarnation %d, %v", got.Incarnation, err)
			}
		}
		// What is skipped is lost, and what was saved before comes back.
		b.sh("echo more > more; rm run")
		if _, err := b.c.Sandboxes.Terminate(t.Context(), "box", client.SkipSave()); err != nil {
			t.Fatal(err)
		}
		if after := b.sh(look).Stdout; after != before {
			t.Errorf("after an end without a save:\n%s", after)
		}
		// A stopped one keeps its files without any of this.
		b.sh("echo more > more")
		if _, err := b.c.Sandboxes.Restart(t.Context(), "box"); err != nil {
			t.Fatal(err)
		}
		b.says("cat more", "more\n")
	})
}

// Saving by hand makes versions that are listed, compared, restored in place and into new sandboxes, also
// after the sandbox is deleted.
func TestVersionsByHand(t *testing.T) {
	testkit.Proves(t, "S10", "S7", "V2", "O1")
	t.Parallel()
	p := start(t, local(t))
	c := p.client(t)
	sb := c.Sandboxes
	b := make1(t, c, api.CreateSandbox{Name: "box", Env: map[string]string{"WORD": "kept"}})
	sync := func() api.Synced {
		t.Helper()
		res, err := sb.Sync(t.Context(), "box", api.SyncWorkspace{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := sync(); res.New || res.Version != "" {
		t.Errorf("an empty workspace: %+v", res)
	}
	b.sh("echo one > f; echo same > g; mkfifo pipe")
	first := sync()
	if !first.New || first.Version == "" || first.Stats.FilesUploaded != 2 || len(first.Skipped) != 1 || first.Skipped[0].Path != "pipe" || len(first.Conflicts) != 0 {
		t.Errorf("%+v", first)
	}
	if again := sync(); again.New || again.Version != first.Version || again.Stats.FilesUploaded != 0 {
		t.Errorf("nothing changed: %+v", again)
	}
	b.sh("echo second > f; rm g; echo new > h")
	if _, err := sb.Stop(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	second := sync() // of a stopped one, which it starts
	if got, err := sb.Get(t.Context(), "box"); err != nil || got.State != "running" {
		t.Errorf("after a sync it is %s, %v", got.State, err)
	}
	all := b.versions()
	if len(all) != 2 || all[0].ID != second.Version || all[1].ID != first.Version || all[0].Files != 2 || all[0].Parent != first.Version {
		t.Fatalf("%+v", all)
	}
	detail, err := sb.Version(t.Context(), "box", second.Version)
	if d := detail.Changes; err != nil || d.From != first.Version || d.Added != 1 || d.Modified != 1 || d.Deleted != 1 || d.Bytes != 11 {
		t.Errorf("%+v, %v", detail, err)
	}
	back, err := sb.Diff(t.Context(), "box", second.Version, first.Version)
	if err != nil || fmt.Sprint(back.Paths) != "[{f modified file  4 7 false} {g added file  5 0 false} {h deleted file  4 0 false}]" {
		t.Errorf("%+v, %v", back, err)
	}
	for _, unknown := range []string{"20200101T000000.000000000Z-aaaaaa", "x y", "HEAD"} {
		if _, err := sb.Version(t.Context(), "box", unknown); problem(err).Code != api.CodeUnknownVersion {
			t.Errorf("%q: %v", unknown, err)
		}
	}

	// In place: what was there is a version, and so is what was brought back.
	b.sh("echo unsaved > u")
	res, err := sb.Restore(t.Context(), "box", api.RestoreVersion{Version: first.Version})
	if err != nil || res.From != first.Version || res.Version == first.Version || res.Sandbox.Name != "box" {
		t.Fatalf("%+v, %v", res, err)
	}
	b.says("cat f g; ls", "one\nsame\nf\ng\npipe\n")
	if all = b.versions(); len(all) != 4 || all[0].ID != res.Version {
		t.Fatalf("%+v", all)
	}
	if _, err := sb.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	b.says("cat f g; ls", "one\nsame\nf\ng\n") // and stays, in the next life
	if got, err := sb.Restore(t.Context(), "box", api.RestoreVersion{Version: all[1].ID}); err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	b.says("cat u f h", "unsaved\nsecond\nnew\n")

	// Into a new one, once.
	made, err := sb.Restore(t.Context(), "box", api.RestoreVersion{Version: second.Version, Into: "copy"})
	if err != nil || made.Sandbox.Name != "copy" || made.SandboxID == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	cp := box{t, c, "copy"}
	cp.says("cat f h; echo $WORD; ls", "second\nnew\nkept\nf\nh\n")
	if got := cp.versions(); len(got) != 1 || got[0].ID != made.Version {
		t.Errorf("%+v", got)
	}
	if _, err := sb.Restore(t.Context(), "box", api.RestoreVersion{Into: "copy"}); problem(err).Code != api.CodeNameTaken {
		t.Errorf("into one that is there: %v", err)
	}

	// After it is deleted, by its id.
	id := res.SandboxID
	b.sh("echo last > last")
	if err := sb.Delete(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Restore(t.Context(), id, api.RestoreVersion{}); problem(err).Code != api.CodeDeleted {
		t.Errorf("in place of a deleted one: %v", err)
	}
	if _, err := sb.Sync(t.Context(), id, api.SyncWorkspace{}); problem(err).Code != api.CodeDeleted {
		t.Errorf("sync of a deleted one: %v", err)
	}
	if _, err := sb.Restore(t.Context(), id, api.RestoreVersion{Into: "heir"}); err != nil {
		t.Fatal(err)
	}
	box{t, c, "heir"}.says("cat last u", "last\nunsaved\n")

	// The same by create, which finds the id in the list of deleted ones.
	var deleted []string
	for s, err := range sb.List(t.Context(), client.SandboxFilter{Deleted: true}) {
		if err != nil {
			t.Fatal(err)
		}
		deleted = append(deleted, s.ID)
	}
	if !slices.Contains(deleted, id) {
		t.Errorf("deleted sandboxes %q, want %s among them", deleted, id)
	}
	again, isNew, err := sb.Create(t.Context(), api.CreateSandbox{From: id})
	if err != nil || !isNew || again.ID == id || again.Template != res.Sandbox.Template {
		t.Fatalf("%+v, %v, %v", again, isNew, err)
	}
	box{t, c, again.ID}.says("cat last u", "last\nunsaved\n")
	for field, want := range map[string]api.CreateSandbox{
		"there is a sandbox heir": {From: id, Name: "heir"}, "body.id": {From: id, ID: again.ID}, "from": {From: "01970e4b-0000-7000-8000-00000000ffff"},
	} {
		if _, _, err := sb.Create(t.Context(), want); err == nil || field != "from" && !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: %v, want %q", want, err, field)
		}
	}

	// Pruned, verified, purged.
	old := box{t, c, id}
	dry, err := sb.Prune(t.Context(), id, api.PruneVersions{KeepLast: 2, DryRun: true})
	if all = old.versions(); err != nil || len(dry.Removed) != len(all)-2 {
		t.Errorf("%+v, %v", dry, err)
	}
	if _, err := sb.Prune(t.Context(), id, api.PruneVersions{KeepLast: 2}); err != nil || len(old.versions()) != 2 {
		t.Errorf("%d versions, %v", len(old.versions()), err)
	}
	if _, err := sb.Prune(t.Context(), id, api.PruneVersions{}); problem(err).Code != api.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
	if v, err := sb.Verify(t.Context(), id); err != nil || v.Versions != 2 || len(v.Problems) != 0 || v.Files == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := sb.Delete(t.Context(), id, client.Purge()); err != nil {
		t.Fatal(err)
	}
	if got := old.versions(); len(got) != 0 {
		t.Errorf("purged: %+v", got)
	}
	if err := sb.Delete(t.Context(), "heir", client.Purge()); err != nil {
		t.Fatal(err)
	}
}

// The versions of a sandbox from before prefixes were recorded stay where they are when the template's pattern is
// changed after an upgrade.
func TestPrefixIsRecordedAtTheUpgrade(t *testing.T) {
	testkit.Proves(t, "S7")
	t.Parallel()
	env := local(t)
	p := start(t, env)
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	b.sh("echo kept > f")
	if _, err := b.c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(value(env, "BERTH_DATA_DIR"), "berth.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`update sandboxes set prefix = ''`); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	p = start(t, env)
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(path, []byte("[templates.default]\ns3_key_prefix = \"docs/{tenant}/elsewhere/{sandbox}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, append(slices.Clone(env), "BERTH_CONFIG="+path))
	b = box{t, p.client(t), "box"}
	b.says("cat f", "kept\n")
}
