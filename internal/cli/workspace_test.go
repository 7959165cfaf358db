package cli

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// desk is a shell with a store, in which directories are saved and restored.
type desk struct {
	*shell
	store, dir string
}

func newDesk(t testing.TB) *desk {
	s := newShell(t, nil)
	d := &desk{shell: s, store: filepath.Join(t.TempDir(), "store"), dir: t.TempDir()}
	s.env["BERTH_OBJECT_STORE"] = d.store
	return d
}

// path is a directory of the desk.
func (d *desk) path(name string) string { return filepath.Join(d.dir, name) }

// tree makes a directory with files in it.
func (d *desk) tree(name string, files map[string]string) string {
	d.t.Helper()
	if err := os.MkdirAll(d.path(name), 0o755); err != nil {
		d.t.Fatal(err)
	}
	fill(d.t, d.path(name), files)
	return d.path(name)
}

// has fails unless the directory holds exactly these files, beside Berth's own.
func (d *desk) has(name string, want map[string]string) {
	d.t.Helper()
	got := seenIn(d.t, d.path(name))
	maps.DeleteFunc(got, func(path, _ string) bool { return strings.HasPrefix(path, workspace.StateFile) })
	if !maps.Equal(got, want) {
		d.t.Errorf("%s has %q, want %q", name, got, want)
	}
}

// does runs a workspace command that must succeed, and returns what it printed.
func (d *desk) does(args ...string) string {
	d.t.Helper()
	r := d.berth(append([]string{"workspace"}, args...)...)
	if r.code != 0 {
		d.t.Fatalf("berth workspace %q: exit %d, %s", args, r.code, r.err)
	}
	return r.out
}

// synced runs one with --json.
func (d *desk) synced(args ...string) syncedJSON {
	d.t.Helper()
	return decode[syncedJSON](d.t, d.does(append(args, "--json")...))
}

// refuses runs one that must fail with these words, and with this code in its --json.
func (d *desk) refuses(code api.Code, words []string, args ...string) {
	d.t.Helper()
	args = append([]string{"workspace"}, args...)
	r := d.berth(args...)
	if r.code != 125 || r.out != "" {
		d.t.Errorf("berth %q: %+v", args, r)
	}
	contains(d.t, strings.Join(args, " "), r.err, words...)
	if p := decode[api.Problem](d.t, d.berth(append(args, "--json")...).err); p.Code != code || p.Hint == "" {
		d.t.Errorf("berth %q: problem %+v, want %s", args, p, code)
	}
}

func TestWorkspaceSavesAndBringsBack(t *testing.T) {
	testkit.Proves(t, "S1", "S2", "S7", "S9", "S10")
	d := newDesk(t)
	first := map[string]string{"a.txt": "one", "src/x.go": "x", "empty/": "", "link": "->/etc/passwd"}
	project := d.tree("project", first)
	one := d.synced("push", project)
	if !one.New || one.FilesUploaded != 2 || one.BytesTransferred != 4 || one.Version == "" {
		t.Errorf("first push: %+v", one)
	}
	if again := d.synced("push", project); again.New || again.Version != one.Version || again.FilesUploaded != 0 {
		t.Errorf("push of nothing: %+v", again)
	}
	if state, err := os.ReadFile(project + "/.sandbox-state"); err != nil || !strings.Contains(string(state), `"path":"src/x.go"`) || strings.Contains(string(state), `"path":".sandbox`) {
		t.Errorf("state %s, %v", state, err)
	}

	fill(t, project, map[string]string{"a.txt": "two", "b.txt": "new"})
	if err := os.Remove(project + "/src/x.go"); err != nil {
		t.Fatal(err)
	}
	two := strings.TrimSpace(d.does("push", "-q", "--note", "the second", project))
	second := map[string]string{"a.txt": "two", "b.txt": "new", "src/": "", "empty/": "", "link": "->/etc/passwd"}

	contains(t, "restore", d.does("restore", "--into", d.path("deep/newest")), "restored version "+two, "3 files written")
	d.has("deep/newest", second)
	d.does("restore", "--into", d.path("old"), "--version", one.Version[:len(one.Version)-2])
	d.has("old", first)
	contains(t, "versions", d.does("versions", project), "HERE", "*     "+two, "the second", "      "+one.Version)
	if ids := d.does("versions", "-q", "--limit", "1"); ids != two+"\n" {
		t.Errorf("the newest is %q", ids)
	}
	d.does("verify")
}

// TestWorkspaceRestoreOfAnOlderVersionBecomesTheNewest: going back is a change like any other.
func TestWorkspaceRestoreOfAnOlderVersionBecomesTheNewest(t *testing.T) {
	testkit.Proves(t, "S7")
	d := newDesk(t)
	project := d.tree("project", map[string]string{"a": "1"})
	one := d.synced("push", project).Version
	fill(t, project, map[string]string{"a": "2", "b": "2"})
	two := d.synced("push", project).Version
	r := d.berth("workspace", "restore", "--version", one, project)
	contains(t, "restore", r.out, "restored version "+one, "1 file deleted")
	contains(t, "restore's note", r.err, "The newest version is still "+two)
	d.has("project", map[string]string{"a": "1"})
	if res := d.synced("pull", project); res.Version != two || res.FilesDownloaded != 0 {
		t.Errorf("a pull undoes the restore: %+v", res)
	}
	d.has("project", map[string]string{"a": "1"})
	three := d.synced("push", project)
	if !three.New {
		t.Errorf("%+v", three)
	}
	contains(t, "show", d.does("show"), three.Version, "M  a", "D  b", "1 modified, 1 deleted; 1 byte new")
}

func TestWorkspacePushIsRefusedBehindTheStore(t *testing.T) {
	testkit.Proves(t, "S7", "S15")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1", "mine": "1"})
	one := d.synced("push", here).Version
	there := d.path("there")
	d.does("pull", there)
	fill(t, there, map[string]string{"a": "2"})
	d.does("push", there)

	fill(t, here, map[string]string{"mine": "changed"})
	d.refuses(api.CodeSyncConflict, []string{"the store has newer versions than " + one, "'berth workspace pull' brings them here", "Changes made here stay."}, "push", here)
	d.has("here", map[string]string{"a": "1", "mine": "changed"})
	contains(t, "pull", d.does("pull", here), "brought version ", "1 file written")
	d.has("here", map[string]string{"a": "2", "mine": "changed"})
	if res := d.synced("push", here); !res.New || res.FilesUploaded != 1 {
		t.Errorf("%+v", res)
	}

	stranger := d.tree("stranger", map[string]string{"s": "s"})
	d.refuses(api.CodeSyncConflict, []string{"was never the same as a version in file://", "'berth workspace sync' merges the two and deletes nothing"}, "push", stranger)
	d.does("sync", stranger)
	all := map[string]string{"a": "2", "mine": "changed", "s": "s"}
	d.has("stranger", all)
	contains(t, "sync", d.does("sync", here), "brought version ", "1 file written")
	d.has("here", all)
}

func TestWorkspaceConflictsAreKeptTwiceAndListed(t *testing.T) {
	testkit.Proves(t, "S15")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1", "gone": "1", "gone2": "1"})
	d.does("push", here)
	there := d.path("there")
	d.does("pull", there)
	fill(t, there, map[string]string{"a": "theirs"})
	for _, name := range []string{"gone", "gone2"} {
		if err := os.Remove(filepath.Join(there, name)); err != nil {
			t.Fatal(err)
		}
	}
	theirs := d.synced("push", there).Version
	fill(t, here, map[string]string{"a": "mine", "gone": "changed"})
	r := d.berth("workspace", "sync", here)
	contains(t, "sync", r.err, "changed on both sides, and kept twice: a and a.conflict-")
	contains(t, "sync", r.out, "saved version ", "1 file deleted")
	want := map[string]string{"a": "mine", "a.conflict-" + theirs: "theirs", "gone": "changed"}
	d.has("here", want)
	d.does("pull", there)
	d.has("there", want)

	fill(t, there, map[string]string{"a": "theirs again"})
	d.does("push", there)
	fill(t, here, map[string]string{"a": "mine again"})
	if res := d.synced("pull", here); len(res.Conflicts) != 1 || res.Conflicts[0].Path != "a" || !strings.HasPrefix(res.Conflicts[0].Copy, "a.conflict-") {
		t.Errorf("conflicts %q", res.Conflicts)
	}
}

// TestWorkspaceStateFileDecides: what the directory says of itself is believed only if the store says the
// same, and with nothing to believe nothing is deleted.
func TestWorkspaceStateFileDecides(t *testing.T) {
	testkit.Proves(t, "S3", "S4", "S12")
	for name, c := range map[string]struct {
		spoil func(state string) error
		say   string
	}{
		"missing": {os.Remove, ""},
		"cut":     {func(state string) error { return os.Truncate(state, 40) }, "the state file cannot be read, so that everything is compared anew"},
		"empty":   {func(state string) error { return os.Truncate(state, 0) }, "the state file cannot be read"},
		"edited":  {func(state string) error { return edit(state, `"path":"kept"`, `"path":"keep"`) }, "the state file is not what was saved as version"},
		"elsewhere": {func(state string) error {
			return os.WriteFile(state, []byte(`{"version":"1.0","last_synced_at":1,"files":[]}`), 0o600)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			here := d.tree("here", map[string]string{"kept": "1", "deleted there": "1"})
			d.does("push", here)
			there := d.path("there")
			d.does("pull", there)
			if err := errors.Join(os.Remove(filepath.Join(there, "deleted there")), c.spoil(filepath.Join(here, workspace.StateFile))); err != nil {
				t.Fatal(err)
			}
			d.does("push", there)
			r := d.berth("workspace", "pull", here)
			if r.code != 0 || !strings.Contains(r.err, c.say) {
				t.Errorf("pull: %+v", r)
			}
			d.has("here", map[string]string{"kept": "1", "deleted there": "1"})
			d.does("push", here)
			contains(t, "versions", d.does("versions", here), "*     ")
		})
	}
}

func edit(path, old, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), old, text, 1)), 0o600)
}

// TestWorkspaceWithoutItsIndexReadsEverythingAndChangesNothing: the index only makes it fast.
func TestWorkspaceWithoutItsIndexReadsEverythingAndChangesNothing(t *testing.T) {
	testkit.Proves(t, "S8")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1", "b": "2"})
	d.does("push", here)
	if err := os.Remove(here + "/.sandbox-state.idx"); err != nil {
		t.Fatal(err)
	}
	if res := d.synced("push", here); res.New || res.FilesRead != 2 || res.FilesUploaded != 0 {
		t.Errorf("%+v", res)
	}
	if _, err := os.Stat(here + "/.sandbox-state.idx"); err != nil {
		t.Error(err)
	}
}

func TestWorkspaceRefusesAStateOfANewerFormat(t *testing.T) {
	testkit.Proves(t, "S4")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	d.does("push", here)
	state := []byte(`{"version":"2.0","files":[]}`)
	if err := os.WriteFile(here+"/.sandbox-state", state, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"push", "pull", "sync", "diff"} {
		d.refuses(api.CodeBadManifest, []string{"read the state file " + here + "/.sandbox-state", `"2.0"`}, verb, here)
	}
	if now, _ := os.ReadFile(here + "/.sandbox-state"); string(now) != string(state) {
		t.Errorf("it was overwritten: %s", now)
	}
}

func TestWorkspaceMassDelete(t *testing.T) {
	testkit.Proves(t, "S3")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1", "b": "1", "c": "1"})
	d.does("push", here)
	there := d.path("there")
	d.does("pull", there)
	if err := errors.Join(os.Remove(there+"/a"), os.Remove(there+"/b")); err != nil {
		t.Fatal(err)
	}
	d.does("push", there)
	d.refuses(api.CodeMassDelete, []string{"would delete 2 of 3 files; nothing was changed", "--allow-mass-delete does it all the same"}, "pull", here)
	d.refuses(api.CodeMassDelete, []string{"--allow-mass-delete does it all the same"}, "sync", here)
	d.has("here", map[string]string{"a": "1", "b": "1", "c": "1"})
	contains(t, "pull", d.does("pull", "--allow-mass-delete", here), "2 files deleted")
	d.has("here", map[string]string{"c": "1"})
}

func TestWorkspaceElsewhere(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	d.does("push", here)
	for _, verb := range []string{"push", "sync"} {
		d.refuses(api.CodeSyncConflict, []string{"was saved before, but not in ", "prefix other/, where nothing is saved yet", "--new begins a new history"}, verb, "--prefix", "/other/", here)
	}
	if res := d.synced("push", "--prefix", "other", "--new", here); !res.New || res.FilesUploaded != 1 {
		t.Errorf("%+v", res)
	}
	d.refuses(api.CodeSyncConflict, []string{"was never the same as a version in"}, "push", here)
	d.does("sync", here)
	d.has("here", map[string]string{"a": "1"})
}

func TestWorkspaceIgnoresWhatItIsToldTo(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1", ".berthignore": "node_modules/\n", "node_modules/big": "x"})
	if res := d.synced("push", here); res.FilesUploaded != 2 {
		t.Errorf("%+v", res)
	}
	fill(t, here, map[string]string{"a": "2", "new": "2"})
	contains(t, "diff", d.does("diff", here), "M  a", "A  new", "1 added, 1 modified; 2 bytes new")
	d.does("restore", here)
	d.has("here", map[string]string{"a": "1", ".berthignore": "node_modules/\n", "node_modules/big": "x"})
	fill(t, here, map[string]string{".berthignore": strings.Repeat("x\n", workspace.MaxIgnore)})
	d.refuses(api.CodeInvalidRequest, []string{".berthignore"}, "push", here)
}

func TestWorkspaceNamesWhatItCannotSave(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	for i := range maxNamed + 2 {
		if err := mkfifo(here, i); err != nil {
			t.Fatal(err)
		}
	}
	r := d.berth("workspace", "push", "-q", here)
	contains(t, "stderr", r.err, "berth: left out pipe0: it is a pipe\n", "berth: … and 2 more\n")
	if res := d.synced("push", here); len(res.Skipped) != maxNamed+2 || res.Skipped[0] != (skippedJSON{Path: "pipe0", Why: "it is a pipe"}) {
		t.Errorf("%+v", res)
	}
}
