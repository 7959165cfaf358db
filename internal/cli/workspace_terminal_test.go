package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// slow is a store whose writes, or reads, of packs wait until the test has seen enough.
type slow struct {
	blob.Store
	seen func()
}

func (s *slow) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if strings.Contains(key, "packs/") {
		s.seen()
	}
	return s.Store.Put(ctx, key, r, size, o)
}

func TestWorkspaceProgressAtATerminal(t *testing.T) {
	testkit.Proves(t, "X6")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": strings.Repeat("x", 2048)})
	m := newTerminal(t)
	d.deps.OpenStore = func(ctx context.Context, address string) (blob.Store, error) {
		store, err := open.Store(ctx, address)
		return &slow{store, func() {
			m.Wait("pushing " + here + " ████████████████████ 100%: 1 file, 2.0 KiB")
		}}, err
	}
	if r := d.at(m).berth("workspace", "push", here); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	m.Wait("saved version ")
	for _, args := range [][]string{{"-q"}, {"--json"}} {
		m := newTerminal(t)
		d.at(m).berth(append([]string{"workspace", "push", here}, args...)...)
		m.Wait("Z-")
		if strings.Contains(m.Text(), "pushing") {
			t.Errorf("%q: %q", args, m.Text())
		}
	}
}

func TestWorkspacePushCanBeInterrupted(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	plain := d.deps.OpenStore
	var once sync.Once
	d.deps.OpenStore = func(ctx context.Context, address string) (blob.Store, error) {
		store, err := open.Store(ctx, address)
		return &slow{store, func() {
			once.Do(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) })
			<-ctx.Done()
		}}, err
	}
	r := d.berth("workspace", "push", here)
	if r.code != ui.ExitInterrupted || r.err != "berth: interrupted; the same command goes on where it stopped\n" {
		t.Errorf("%+v", r)
	}
	d.deps.OpenStore = plain
	if res := d.synced("push", here); !res.New {
		t.Errorf("%+v", res)
	}
}

func TestWorkspaceRestoreAsksBeforeChangesAreLost(t *testing.T) {
	for _, c := range []struct {
		typed string
		code  int
		left  map[string]string
	}{{"n\n", 125, map[string]string{"a": "2", "b": "2"}}, {"y\n", 0, map[string]string{"a": "1"}}} {
		d := newDesk(t)
		here := d.tree("here", map[string]string{"a": "1"})
		version := d.synced("push", here).Version
		fill(t, here, map[string]string{"a": "2", "b": "2"})
		m := newTerminal(t)
		m.Type(c.typed)
		r := d.at(m).berth("workspace", "restore", here)
		m.Wait("Lose what was changed since version " + version + " in " + here + ": a (modified), b (added)? [y/N]")
		if r.code != c.code {
			t.Errorf("%q: %+v", c.typed, r)
		}
		d.has("here", c.left)
	}

	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	d.does("push", here)
	m := newTerminal(t)
	d.at(m).berth("workspace", "restore", here)
	m.Wait("restored version ")
	fill(t, here, map[string]string{"a": "2"})
	d.at(m).berth("workspace", "restore", "--yes", here)
	d.has("here", map[string]string{"a": "1"})
	if strings.Contains(m.Text(), "[y/N]") {
		t.Errorf("it asked for nothing: %s", m.Text())
	}

	other := d.tree("other", map[string]string{"p": "", "q": "", "r": "", "s": "", "t": ""})
	m = newTerminal(t)
	m.Type("n\n")
	d.at(m).berth("workspace", "restore", "--into", other)
	m.Wait("Lose what was never saved here in " + other + ": p (added), q (added), r (added) and 2 more? [y/N]")
}

func TestWorkspacePrune(t *testing.T) {
	testkit.Proves(t, "S17")
	d := newDesk(t)
	here := d.tree("here", nil)
	var all []string
	for _, text := range []string{"1", "2", "3", "4"} {
		fill(t, here, map[string]string{"a": text})
		all = append([]string{d.synced("push", here).Version}, all...)
	}
	contains(t, "dry run", d.does("prune", "-n", "--keep-last", "2"), "would remove "+all[2], "would remove 2 versions, keep 2")
	if got := decode[prunedJSON](t, d.does("prune", "-n", "--keep-daily", "1", "--json")); !got.DryRun || len(got.Kept) != 1 || got.Kept[0].ID != all[0] || len(got.Removed) != 3 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		typed string
		left  int
	}{{"n\n", 4}, {"y\n", 3}} {
		m := newTerminal(t)
		m.Type(c.typed)
		d.at(m).berth("workspace", "prune", "--keep-last", "3", here)
		m.Wait("Remove 1 version of 4 for good? [y/N]")
		if n := strings.Count(d.does("versions", "-q"), "\n"); n != c.left {
			t.Errorf("%q left %d", c.typed, n)
		}
	}
	if out := d.does("prune", "-q", "--keep-last", "2"); out != all[2]+"\n" {
		t.Errorf("-q printed %q", out)
	}
	d.does("prune", "--keep-last", "1", "--yes")
	if out := d.does("versions", "-q"); out != all[0]+"\n" {
		t.Errorf("left %q", out)
	}
	d.does("verify")
	d.does("restore", here)
	d.has("here", map[string]string{"a": "4"})
	contains(t, "again", d.does("prune", "--keep-last", "1"), "removed 0 versions, kept 1", "freed by a prune a day from now")
}

func TestWorkspaceVerifyNamesWhatIsBroken(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "whole"})
	one := d.synced("push", here).Version
	fill(t, here, map[string]string{"b": "broken"})
	two := d.synced("push", here).Version
	contains(t, "verify", d.does("verify"), "2 versions are whole: read 2 files, 11 bytes")
	d.damage("broken", "bRoken")
	r := d.berth("workspace", "verify")
	if r.code != 1 {
		t.Errorf("%+v", r)
	}
	contains(t, "stderr", r.err, "version "+two+", b: its bytes are not those that were saved")
	contains(t, "stdout", r.out, "1 version is whole, 1 not")
	if r := d.berth("workspace", "verify", "-q"); r.code != 1 || r.out != two+"\n" {
		t.Errorf("-q: %+v", r)
	}
	r = d.berth("workspace", "verify", "--json")
	if got := decode[workspace.Verified](t, r.out); r.code != 1 || got.Versions != 2 || len(got.Problems) != 1 || got.Problems[0].Version != two || got.Problems[0].Path != "b" {
		t.Errorf("%+v", got)
	}
	r = d.berth("workspace", "restore", "--into", d.path("new"))
	if r.code != 125 || !strings.Contains(r.err, "b") {
		t.Errorf("restore: %+v", r)
	}
	d.does("restore", "--into", d.path("old"), "--version", one)
	d.has("old", map[string]string{"a": "whole"})
}

// damage changes bytes in the store, behind its back.
func (d *desk) damage(old, text string) {
	d.t.Helper()
	n := 0
	err := filepath.Walk(d.store, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || !strings.Contains(path, "packs") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), old) {
			return err
		}
		n++
		return os.WriteFile(path, []byte(strings.Replace(string(data), old, text, 1)), info.Mode())
	})
	if err != nil || n != 1 {
		d.t.Fatalf("%d objects changed, %v", n, err)
	}
}
