package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// Sandboxes that share a workspace do not follow one that emptied it until a caller allows it, by a flag of the
// start, the ensure or the sync, or by restoring a version.
func TestSharedWorkspaceAfterAMassDelete(t *testing.T) {
	testkit.Proves(t, "S3", "S10", "S15")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte("[templates.team]\ns3_key_prefix = \"team/{tenant}/all/\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, append(local(t), "BERTH_CONFIG="+file, "SANDBOX_SYNC_STALE_THRESHOLD=0"))
	c := p.client(t)
	sb := c.Sandboxes
	first := make1(t, c, api.CreateSandbox{Name: "first", Template: "team"})
	first.sh("for i in 1 2 3 4 5 6; do echo $i > $i; done")
	whole, err := sb.Sync(t.Context(), "first", api.SyncWorkspace{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"started", "restarted", "synced", "restored"}
	for _, name := range names {
		make1(t, c, api.CreateSandbox{Name: name, Template: "team"})
	}
	owned, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{Template: "team"})
	if err != nil {
		t.Fatal(err)
	}
	first.sh("rm 1 2 3 4 5")
	if res, err := sb.Sync(t.Context(), "first", api.SyncWorkspace{}); err != nil || res.Stats.FilesDeleted != 5 {
		t.Fatalf("%+v, %v", res, err)
	}
	once, err := client.New(p.url, testKey, client.WithAttempts(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range append(names, owned.SandboxID) {
		if _, err := sb.Stop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		_, err := once.Sandboxes.Start(t.Context(), id)
		if got := problem(err); got.Code != api.CodeMassDelete || !strings.Contains(got.Hint, "--allow-mass-delete") {
			t.Errorf("start %s: %+v", id, err)
		}
		if _, err := once.Sandboxes.Sync(t.Context(), id, api.SyncWorkspace{}); problem(err).Code != api.CodeMassDelete {
			t.Errorf("sync %s: %v", id, err)
		}
	}
	followed := func(name string) {
		t.Helper()
		box{t, c, name}.says("ls", "6\n")
	}
	if _, err := sb.Start(t.Context(), "started", client.AllowMassDelete()); err != nil {
		t.Fatal(err)
	}
	followed("started")
	if _, err := sb.Restart(t.Context(), "restarted", client.AllowMassDelete()); err != nil {
		t.Fatal(err)
	}
	followed("restarted")
	if _, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{}, client.AllowMassDelete()); err != nil {
		t.Fatal(err)
	}
	followed(owned.SandboxID)
	if res, err := sb.Sync(t.Context(), "synced", api.SyncWorkspace{AllowMassDelete: true}); err != nil || res.Stats.FilesDeleted != 5 || res.New {
		t.Fatalf("%+v, %v", res, err)
	}
	followed("synced")
	if res, err := sb.Restore(t.Context(), "restored", api.RestoreVersion{Version: whole.Version}); err != nil || res.Stats.FilesDownloaded != 5 || !res.New {
		t.Fatalf("%+v, %v", res, err)
	}
	box{t, c, "restored"}.says("ls | wc -l", "6\n")
	// More than half came back: nobody has to allow that.
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := sb.Restart(t.Context(), "started"); err != nil {
			return err
		}
		if got := (box{t, c, "started"}).sh("ls | wc -l").Stdout; got != "6\n" {
			return fmt.Errorf("the others see %s files", got)
		}
		return nil
	})
}
