package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
)

// fillUp writes to the file until no space is left.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A sandbox's disk is a file: what the kernel has yet to write to it would take room that is made later.
	syscall.Sync()
	for _, size := range []int{1 << 20, 4096} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

func wantDisk(t *testing.T, c *client.Client, status, detail string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		ready, err := c.Ready(t.Context())
		if err != nil {
			return err
		}
		for _, check := range ready.Checks {
			if check.Name == "disk" && check.Status == status && strings.Contains(check.Detail, detail) && (status == "ok") == (check.Fix == "") {
				return nil
			}
		}
		return fmt.Errorf("readiness: %+v", ready)
	})
}

// A server starts on a full disk, says so, refuses new sandboxes in clear words, and deletes old ones. Then
// everything works again, and the next full disk finds it as well prepared.
func TestServerStartsOnAFullDisk(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	smallDisk(t, dir)
	env := append(local(t), "BERTH_DATA_DIR="+dir, "BERTH_DISK_LOW_WATER=24MiB")
	t.Cleanup(func() { endAll(t, filepath.Join(dir, "local")) })
	p := start(t, env)
	c := p.client(t, client.WithAttempts(1))
	for _, name := range []string{"big", "small"} {
		if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	talk, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	wantDisk(t, c, "ok", "bytes are free")
	testkit.Eventually(t, time.Minute, func() error { _, err := os.Stat(filepath.Join(dir, "disk.reserve")); return err })
	for round := range 2 {
		fresh := fmt.Sprint("new-", round)
		b := box{t, c, "big"}
		if res := b.sh("cat /dev/zero >> fill"); res.ExitCode == 0 { // no space for its words either
			t.Fatalf("fill the disk from the sandbox: %+v", res)
		}
		if round == 0 {
			_ = p.end(t)
		} else {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		fillUp(t, filepath.Join(dir, "filler"))
		p = start(t, env)
		c = p.client(t, client.WithAttempts(1))
		wantDisk(t, c, "warning", "full")
		if ready, err := c.Ready(t.Context()); err != nil || ready.Status != "degraded" {
			t.Errorf("readiness on a full disk: %+v, %v", ready, err)
		}
		var refusal *api.Problem
		if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: fresh}); !errors.As(err, &refusal) || refusal.Code != api.CodeServerDiskFull || refusal.Status != 507 {
			t.Fatalf("create on a full disk: %v", err)
		}
		if _, err := c.Conversations.Prompt(t.Context(), talk.ID, api.Prompt{Prompt: "hello"}); !errors.As(err, &refusal) || refusal.Code != api.CodeServerDiskFull {
			t.Fatalf("prompt on a full disk: %v", err)
		}
		if err := c.Sandboxes.Delete(t.Context(), "big", client.SkipSave()); err != nil {
			t.Fatalf("delete on a full disk: %v", err)
		}
		wantDisk(t, c, "ok", "bytes are free")
		for _, name := range []string{fresh, "big"} {
			testkit.Eventually(t, time.Minute, func() error {
				_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: name})
				return err
			})
		}
		if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func() error { _, err := os.Stat(filepath.Join(dir, "disk.reserve")); return err })
	}
	if a, err := p.askAnew(t, "/metrics"); err != nil || !strings.Contains(string(a.body), "\nberth_disk_free_bytes ") {
		t.Errorf("no metric of the free space: %v", err)
	}
	if log := p.logs.String(); !strings.Contains(log, "the disk of the data directory is full") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log:\n%s", troubles(log))
	}
	for _, name := range []string{"new-0", "new-1", "big", "small"} {
		if err := c.Sandboxes.Delete(t.Context(), name, client.SkipSave()); err != nil {
			t.Error(err)
		}
	}
	_ = p.end(t)
}

// A file system without inodes is as full as one without space: new work is refused, and deletes help.
func TestServerOnADiskWithoutInodes(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	smallDisk(t, dir)
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "size=96m,mode=0700,nr_inodes=32k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endAll(t, filepath.Join(dir, "local")) })
	p := start(t, append(local(t), "BERTH_DATA_DIR="+dir, "BERTH_DISK_LOW_WATER=24MiB"))
	c := p.client(t, client.WithAttempts(1))
	for _, name := range []string{"many", "small"} {
		if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	wantDisk(t, c, "ok", "bytes are free")
	useInodes(t, filepath.Join(dir, "names"))
	wantDisk(t, c, "warning", "full")
	var refusal *api.Problem
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "new"}); !errors.As(err, &refusal) || refusal.Code != api.CodeServerDiskFull || !strings.Contains(refusal.Detail, "more files") {
		t.Fatalf("create without inodes: %v", err)
	}
	if err := c.Sandboxes.Delete(t.Context(), "many", client.SkipSave()); err != nil {
		t.Fatalf("delete without inodes: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "names")); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, c, "ok", "bytes are free")
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "small"} {
		if err := c.Sandboxes.Delete(t.Context(), name, client.SkipSave()); err != nil {
			t.Error(err)
		}
	}
	_ = p.end(t)
}

// useInodes makes empty files until the file system has no inode left.
func useInodes(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(n)))
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// A first start on a disk with too little space says so, what to do, and nothing of what follows from it.
func TestFirstStartOnAFullDisk(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	for _, left := range []int64{0, 8 << 10, 64 << 10, 200 << 10, 600 << 10} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 1<<20-left), 0o600); left > 0 && err != nil {
			t.Fatal(err)
		}
		cfg := configured(t, append([]string{"BERTH_DATA_DIR=" + filepath.Join(dir, "data")}, fresh(t)...))
		s, err := app.NewServer(t.Context(), app.Options{Config: cfg, Log: t.Output()})
		if err == nil {
			t.Errorf("with %d bytes it starts", left)
			_ = s.Close()
			continue
		}
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != api.CodeServerDiskFull || !strings.Contains(err.Error(), cfg.DataDir) || !strings.Contains(e.Hint, "--data-dir") || strings.Contains(err.Error(), "transaction") {
			t.Errorf("with %d bytes left: %#v, %v", left, e, err)
		}
	}
}
