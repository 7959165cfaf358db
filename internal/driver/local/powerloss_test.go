package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

// TestPowerLossLeavesSandboxesThatStart cuts the power after each operation on the driver's files in turn. What was acknowledged is
// there afterwards and starts, with the files that were stored in it; anything else can be made again.
func TestPowerLossLeavesSandboxesThatStart(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range testkit.Size(t, "local.powerlosses") {
		for cut := 0; ; cut++ {
			rng := rand.New(rand.NewPCG(seed, uint64(round<<16|cut)))
			if losePower(t, cut, rng) {
				break
			}
		}
	}
}

// story is what was asked of a driver until its power was cut.
type story struct {
	spec   driver.Spec
	made   bool // the instance was acknowledged
	stored bool // and so was a file in it
}

// losePower reports whether all was done before the power went.
func losePower(t *testing.T, cut int, rng *rand.Rand) (done bool) {
	dir := t.TempDir()
	shareBase(t, dir)
	disk := local.NewPowerDisk(dir, cut)
	tale := story{spec: spec()}
	tale.live(t, dir, disk)
	left := map[string]string{}
	for name, survival := range local.Survivals(rng) {
		left[name] = t.TempDir()
		disk.Crash(t, survival, left[name])
	}
	destroyAll(t, dir)
	for name, after := range left {
		t.Run(fmt.Sprintf("%d %s", cut, name), func(t *testing.T) { tale.check(t, after) })
	}
	return !disk.Off()
}

// live makes an instance, stores a file in it, stops it and starts it again.
func (s *story) live(t *testing.T, dir string, disk *local.PowerDisk) {
	d, err := local.NewOn(t.Context(), local.Options{Dir: dir, Exe: helper, Tier: local.TierRoot, Grace: time.Millisecond, DiskEvery: -1}, disk)
	if err != nil {
		mustBeOff(t, disk, err)
		return
	}
	defer d.Close()
	st, err := d.Create(t.Context(), s.spec)
	if err != nil {
		mustBeOff(t, disk, err)
		return
	}
	s.made = true
	if err := store(t.Context(), d, st.ID); err != nil {
		t.Fatal(err)
	}
	s.stored = true
	conn, err := d.Guest(t.Context(), st.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Start(t.Context(), "job", sh("echo begun; sleep 600")); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), st.ID); err != nil {
		mustBeOff(t, disk, err)
		return
	}
	if _, err := d.Start(t.Context(), st.ID); err != nil {
		mustBeOff(t, disk, err)
	}
}

func mustBeOff(t *testing.T, disk *local.PowerDisk, err error) {
	t.Helper()
	if !disk.Off() || !errors.Is(err, local.ErrPowerOff) {
		t.Fatal(err)
	}
}

func store(ctx context.Context, d *local.Driver, id driver.ID) error {
	root, err := d.Files(ctx, id, files.WorkingDir)
	if err != nil {
		return err
	}
	defer root.Close()
	_, _, err = root.Write(ctx, "folder/stored", strings.NewReader("stored"), files.WriteOptions{})
	return err
}

// destroyAll ends what runs of instances whose driver has no power.
func destroyAll(t *testing.T, dir string) {
	d, err := local.New(t.Context(), local.Options{Dir: dir, Exe: helper, Tier: local.TierRoot, DiskEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	for st, err := range d.List(context.Background(), driver.Selector{}) {
		if err == nil {
			err = d.Destroy(context.Background(), st.ID)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(d.WaitIdle(t.Context()), d.Close()); err != nil {
		t.Error(err)
	}
}

// check starts the next driver on what was left.
func (s *story) check(t *testing.T, dir string) {
	d := open(t, dir)
	id := driver.ID(s.spec.Key.Sandbox + "-1")
	st, err := d.Inspect(t.Context(), id)
	if s.made && (err != nil || st.Phase != driver.PhaseStopped) {
		t.Fatalf("an instance that was acknowledged is %+v, %v", st, err)
	}
	if errors.Is(err, driver.ErrNotFound) {
		create(t, d, s.spec)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Destroy(context.Background(), id) })
	if got := output(t, d, id, sh("cat folder/stored || true")); s.stored && got != "stored" {
		t.Errorf("the stored file has %q", got)
	}
}

// A run file that cannot be read keeps no instance from being stopped, started or destroyed.
func TestUnreadableRunFile(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "zeros": "\x00\x00\x00\x00", "cut": `{"Group":{"cp`} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir)
			id := create(t, d, spec()).ID
			output(t, d, id, sh("echo kept >mark"))
			damage := func() {
				if err := os.WriteFile(filepath.Join(dir, string(id), "run.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			damage()
			if err := d.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			damage()
			if _, err := d.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if got := output(t, d, id, sh("cat mark")); got != "kept\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// What a cut-off upload left is removed when the instance starts, and when a server does. What the sandbox makes of
// such names leads nowhere.
func TestStartsSweepUploads(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, spec()).ID
	const name = ".berth-tmp-abcdefghijklmnopqrstuvwx27"
	litter := func() {
		output(t, d, id, sh(`mkdir -p a/b real && touch real/`+name+`x a/b/`+name+` ~/`+name+` && ln -sfn /etc links && ln -sf /etc/passwd ./`+name))
	}
	swept := func(d *local.Driver) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			if got := output(t, d, id, sh(`find . ~ -name '.berth-tmp-*' | sort; ls /etc/passwd`)); got != "./"+name+"\n./real/"+name+"x\n/etc/passwd\n" {
				return fmt.Errorf("there are %q", got)
			}
			return nil
		})
	}
	litter()
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	swept(d)
	litter()
	swept(open(t, dir))
}
