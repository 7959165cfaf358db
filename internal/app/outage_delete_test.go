package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// saved is a sandbox with a version, and a change since.
func saved(t *testing.T, c *client.Client, name string) api.Sandbox {
	t.Helper()
	b := make1(t, c, api.CreateSandbox{Name: name})
	b.sh("echo first > f")
	if _, err := c.Sandboxes.Sync(t.Context(), name, api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	b.sh("echo second > f")
	return b.get()
}

// isFree checks that nothing is left of a sandbox and that its name can be taken.
func isFree(t *testing.T, c *client.Client, s api.Sandbox) {
	t.Helper()
	if _, err := c.Sandboxes.Get(t.Context(), s.ID); problem(err).Code != api.CodeDeleted {
		t.Errorf("%s is not gone: %v", s.Name, err)
	}
	if again, made, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: s.Name}); err != nil || !made || again.ID == s.ID {
		t.Errorf("the name %s is not free: %+v, %v", s.Name, again, err)
	}
}

// A delete without a save asks the store for nothing, and waits for nothing that waits for the store.
func TestRemoveWithoutSaveWhileTheStoreHangs(t *testing.T) {
	testkit.Proves(t, "O1", "S7")
	t.Parallel()
	f, bucket := newFlaky(t, "works")
	p := start(t, append(onS3(local(t), bucket), "BERTH_SAVE_AFTER=1h"))
	c := p.client(t, client.WithTimeout(time.Minute), client.WithAttempts(1))
	idle, syncing := saved(t, c, "idle"), saved(t, c, "syncing")
	f.set("hangs")

	before := f.about(idle.ID)
	if out, code := berth(t, p.at(), "rm", "--yes", "--no-save", "idle"); code != 0 {
		t.Errorf("%d, %s", code, out)
	}
	isFree(t, c, idle)
	if n := f.about(idle.ID) - before; n != 0 {
		t.Errorf("the store was asked %d times for a delete without a save", n)
	}

	f.set("stalls")
	before = f.about(syncing.ID)
	refused := make(chan error, 1)
	go func() {
		_, err := c.Sandboxes.Sync(t.Context(), "syncing", api.SyncWorkspace{})
		refused <- err
	}()
	testkit.Eventually(t, time.Minute, func() error {
		if f.about(syncing.ID) == before {
			return fmt.Errorf("the sync has not begun")
		}
		return nil
	})
	if out, code := berth(t, p.at(), "rm", "--yes", "--no-save", "syncing"); code != 0 || !strings.Contains(out, "deleted syncing") {
		t.Errorf("%d, %s", code, out)
	}
	isFree(t, c, syncing)
	if err := <-refused; !strings.Contains(fmt.Sprint(err), "without a last save") {
		t.Errorf("the sync ended with %v", err)
	}
}

// A delete that waits for its last save can be repeated without one, by name and by id, over HTTP and on the command
// line, and more than once.
func TestPendingRemoveIsRepeatedWithoutSave(t *testing.T) {
	testkit.Proves(t, "O1")
	t.Parallel()
	f, bucket := newFlaky(t, "works")
	p := start(t, append(onS3(local(t), bucket), "BERTH_SAVE_AFTER=1h"))
	c := p.client(t, client.WithTimeout(time.Minute), client.WithAttempts(1))
	cli := func(ref string) error {
		out, code := berth(t, p.at(), "rm", "--yes", "--no-save", ref)
		if code != 0 {
			return fmt.Errorf("%d, %s", code, out)
		}
		return nil
	}
	http := func(ref string) error { return c.Sandboxes.Delete(t.Context(), ref, client.SkipSave()) }
	ways := []struct {
		name   string
		by     func(api.Sandbox) string
		remove func(ref string) error
	}{
		{"cli-name", func(s api.Sandbox) string { return s.Name }, cli},
		{"cli-id", func(s api.Sandbox) string { return s.ID }, cli},
		{"http-name", func(s api.Sandbox) string { return s.Name }, http},
		{"http-id", func(s api.Sandbox) string { return s.ID }, http},
	}
	made := map[string]api.Sandbox{}
	for _, way := range ways {
		made[way.name] = saved(t, c, way.name)
	}
	f.set("hangs")
	for _, way := range ways {
		s := made[way.name]
		pending := make(chan struct{})
		go func() {
			defer close(pending)
			_ = c.Sandboxes.Delete(t.Context(), s.Name)
		}()
		testkit.Eventually(t, time.Minute, func() error {
			if got, err := c.Sandboxes.Get(t.Context(), s.Name); err != nil || got.DeletedAt == nil {
				return fmt.Errorf("%+v, %v", got, err)
			}
			return nil
		})
		if err := way.remove(way.by(s)); err != nil {
			t.Errorf("%s: %v", way.name, err)
		}
		<-pending
		isFree(t, c, s)
		if err := http(s.ID); problem(err).Code != api.CodeDeleted {
			t.Errorf("%s: again: %v", way.name, err)
		}
	}
}
