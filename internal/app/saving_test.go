package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// A server that is killed around the last save loses nothing of the workspace: the next one takes it up.
func TestKilledWhileSaving(t *testing.T) {
	testkit.Proves(t, "O1", "V3")
	t.Parallel()
	for _, point := range []string{"before-end", "after-end", "after-destroy"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			env := local(t)
			p := start(t, append(env, killEnv+"="+point+" 1"))
			b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
			b.sh(tangle)
			before := b.sh(look).Stdout
			once, err := client.New(p.url, testKey, client.WithAttempts(1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := once.Sandboxes.Terminate(t.Context(), "box"); err == nil {
				t.Fatal("the server was not killed")
			}
			_ = p.cmd.Wait()
			p = start(t, env)
			b.c = p.client(t)
			if _, err := b.c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
				t.Fatal(err)
			}
			if after := b.sh(look).Stdout; after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
			if got := b.versions(); len(got) != 1 {
				t.Errorf("%d versions of what never changed", len(got))
			}
			if v, err := b.c.Sandboxes.Verify(t.Context(), "box"); err != nil || len(v.Problems) != 0 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// A sandbox that nobody uses is archived by itself, and its next use brings it back.
func TestUnusedSandboxIsArchivedByItself(t *testing.T) {
	testkit.Proves(t, "T6")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte("[templates.quick.timers]\nauto_stop = \"10s\"\nauto_archive = \"11s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, append(local(t), "BERTH_CONFIG="+file, "BERTH_RECONCILE_INTERVAL=50ms"))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "quick"})
	b.sh("echo kept > f")
	testkit.Eventually(t, 3*time.Minute, func() error {
		got, err := b.c.Sandboxes.Get(t.Context(), "box")
		if err != nil || got.State != "archived" || got.Instance != "" {
			return fmt.Errorf("%s, %v", got.State, err)
		}
		return nil
	})
	b.says("cat f", "kept\n")
}

// headOf is the file in which the store of a server has the HEAD of a sandbox's versions.
func headOf(t *testing.T, env []string, id string) string {
	t.Helper()
	var found string
	root := filepath.Join(strings.TrimPrefix(env[0], "BERTH_DATA_DIR="), "objects")
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, id) && strings.HasPrefix(d.Name(), "HEAD") && !d.IsDir() {
			found = path
		}
		return nil
	})
	if found == "" {
		t.Fatal("there is no HEAD")
	}
	return found
}

// An end whose save fails ends nothing: the volume stays, what is wrong is said, and once it is mended the
// end comes with the last version.
func TestFailedSaveKeepsTheVolume(t *testing.T) {
	testkit.Proves(t, "O1", "S13")
	t.Parallel()
	env := local(t)
	p := start(t, append(env, "BERTH_RECONCILE_INTERVAL=100ms"))
	sb := p.client(t).Sandboxes
	for name, end := range map[string]func() error{
		"terminated": func() error { _, err := sb.Terminate(t.Context(), "terminated"); return err },
		"deleted":    nil,
	} {
		b := make1(t, p.client(t), api.CreateSandbox{Name: name})
		b.sh("echo one > f")
		s, err := sb.Sync(t.Context(), name, api.SyncWorkspace{})
		if err != nil {
			t.Fatal(err)
		}
		b.sh("echo last > f")
		head := headOf(t, env, s.SandboxID)
		whole, err := os.ReadFile(head)
		if err == nil {
			err = os.Remove(head)
		}
		if err == nil {
			err = os.Mkdir(head, 0o700) // neither there nor missing
		}
		if err != nil {
			t.Fatal(err)
		}
		if end != nil {
			if err := end(); problem(err).Code != api.CodeSyncFailed {
				t.Errorf("terminate: %v", err)
			}
			got, err := sb.Get(t.Context(), name)
			if err != nil || got.Instance == "" || got.Error == nil || got.Error.Code != api.CodeSyncFailed {
				t.Errorf("%+v, %v", got, err)
			}
		} else {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.url+"/api/v1/sandboxes/"+name, nil)
			req.Header.Set("Authorization", "Bearer "+testKey)
			res, err := http.DefaultClient.Do(req)
			if err != nil || res.StatusCode != http.StatusAccepted {
				t.Fatalf("%+v, %v", res, err)
			}
			_ = res.Body.Close()
		}
		if err := errors.Join(os.Remove(head), os.WriteFile(head, whole, 0o600)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 2*time.Minute, func() error {
			got, err := sb.Get(t.Context(), s.SandboxID)
			if problem(err).Code == api.CodeDeleted || err == nil && got.State == "terminated" {
				return nil
			}
			return fmt.Errorf("%s, %v", got.State, err)
		})
		old := box{t, p.client(t), s.SandboxID}
		if all := old.versions(); len(all) != 2 {
			t.Errorf("%s: %+v", name, all)
		}
	}
	box{t, p.client(t), "terminated"}.says("cat f", "last\n")
}

// Whatever goes on in a workspace while it is saved, the server stays well, saves nothing from outside of
// it, and is not kept waiting.
func TestHostileWorkspaceIsSaved(t *testing.T) {
	testkit.Proves(t, "S12", "S9")
	t.Parallel()
	p := start(t, local(t))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	b.sh("mkdir d; echo mine > d/passwd; echo mine > passwd; mkfifo pipe; ln -s /etc etc; ln -s /proc/self/root root; ln -s /etc/passwd link; mkdir a; cd a; for i in $(seq 200); do mkdir x; cd x; done")
	stream, err := c.Sandboxes.ExecStream(t.Context(), "box", api.Exec{ExecID: "swap", Command: api.Shell(
		`while [ ! -e stop ]; do mv d d1; ln -s /etc d; rm d; mv d1 d; rm -f passwd; ln -s /etc/passwd passwd; rm passwd; echo mine > passwd; mkfifo passwd2; rm passwd2; done`)})
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Close()
	for i := range 10 {
		res, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{Note: fmt.Sprint(i)})
		if err != nil {
			t.Fatalf("sync %d: %v", i, err)
		}
		if len(res.Skipped) == 0 {
			t.Error("the pipe was saved")
		}
	}
	b.sh("touch stop")
	all := b.versions()
	for i, v := range all {
		if _, err := c.Sandboxes.Restore(t.Context(), "box", api.RestoreVersion{Version: v.ID, Into: fmt.Sprint("copy-", i)}); err != nil {
			t.Fatal(err)
		}
		got := box{t, c, fmt.Sprint("copy-", i)}
		got.says("cat $(find . -type f -name 'passwd*') /dev/null | grep -v mine; find . -type p", "")
		if err := c.Sandboxes.Delete(t.Context(), got.name, client.SkipSave()); err != nil {
			t.Error(err)
		}
		if i == 2 {
			break
		}
	}
	// Files that seem huge are refused at once; the sandbox runs on, and is saved when they do not count.
	b.says("for i in 1 2 3 4 5 6; do truncate -s 9G huge$i || echo failed; done", "")
	if _, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); problem(err).Code != api.CodeWorkspaceTooLarge {
		t.Errorf("a huge file: %v", err)
	}
	b.sh("echo 'huge*' > .berthignore")
	if _, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil {
		t.Errorf("one that is ignored: %v", err)
	}
}

// A root inside that makes saving impossible keeps the sandbox neither from going nor from being used again. What was
// saved before stays.
func TestWorkspaceThatIsNone(t *testing.T) {
	testkit.Proves(t, "O1", "S12")
	t.Parallel()
	p := start(t, local(t))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	b.sh("echo one > f")
	if _, err := b.c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	for _, trick := range []string{"ln -s /etc /workspace", "echo x > /workspace", "true"} {
		res, err := b.c.Sandboxes.Exec(t.Context(), "box", api.Exec{User: "root", Cwd: "/", Command: api.Shell("rm -rf /workspace; " + trick)})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := b.c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); problem(err).Code != api.CodeNotADirectory {
			t.Errorf("%s: %v", trick, err)
		}
		if _, err := b.c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
			t.Errorf("%s: %v", trick, err)
		}
		b.says("cat f", "one\n")
		res, err = b.c.Sandboxes.Exec(t.Context(), "box", api.Exec{User: "root", Cwd: "/", Command: api.Shell("rm -rf /workspace; " + trick)})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := b.c.Sandboxes.Stop(t.Context(), "box"); err != nil {
			t.Errorf("stop after %s: %v", trick, err)
		}
		if _, err := b.c.Sandboxes.Start(t.Context(), "box"); err != nil {
			t.Errorf("start after %s: %v", trick, err)
		}
		b.sh("echo one > f")
	}
}

// Whoever works in the sandbox is not surprised by a restore, unless it is forced.
func TestRestoreWaitsForWhoeverWorks(t *testing.T) {
	t.Parallel()
	p := start(t, local(t))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	b.sh("echo one > f")
	v, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
	if err != nil {
		t.Fatal(err)
	}
	b.sh("echo two > f")
	stream, err := c.Sandboxes.ExecStream(t.Context(), "box", api.Exec{Command: api.Shell("echo up; sleep 600")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	testkit.Eventually(t, time.Minute, func() error {
		why, err := c.Sandboxes.Explain(t.Context(), "box")
		if err == nil && len(why.Holds) == 0 {
			err = errors.New("not held")
		}
		return err
	})
	if _, err := c.Sandboxes.Restore(t.Context(), "box", api.RestoreVersion{Version: v.Version}); problem(err).Code != api.CodeConflict {
		t.Errorf("held: %v", err)
	}
	b.says("cat f", "two\n")
	if _, err := c.Sandboxes.Restore(t.Context(), "box", api.RestoreVersion{Version: v.Version, Force: true}); err != nil {
		t.Errorf("forced: %v", err)
	}
	b.says("cat f", "one\n")
}

// The credentials of the object store are nowhere in a sandbox.
func TestStoreCredentialsStayOutside(t *testing.T) {
	testkit.Proves(t, "S16")
	t.Parallel()
	const canary = "canary-of-the-object-store"
	p := start(t, append(local(t), "AWS_ACCESS_KEY_ID="+canary, "AWS_SECRET_ACCESS_KEY="+canary, "AWS_SESSION_TOKEN="+canary))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	b.sh("echo x > f")
	if _, err := b.c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	res, err := b.c.Sandboxes.Exec(t.Context(), "box", api.Exec{User: "root", Command: api.Shell(
		`env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; cat /workspace/.sandbox-state; grep -rl canary-of /workspace /home /tmp /etc /run 2>/dev/null`)})
	if err != nil || strings.Contains(res.Stdout+res.Stderr, "canary-of-the") || !strings.Contains(res.Stdout, `"files"`) {
		t.Errorf("%s %s, %v", res.Stdout, res.Stderr, err)
	}
	if strings.Contains(p.logs.String(), canary) {
		t.Error("the log has them")
	}
}

// A store that cannot be used keeps a server from starting, with words; the one that is used is told.
func TestObjectStoreOfAServer(t *testing.T) {
	testkit.Proves(t, "S13", "S14")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for address, why := range map[string]string{
		file: "object store", "s3://bucket?endpoint=http://127.0.0.1:1&region=x": "object store", "ftp://x": "object_store",
	} {
		said := refused(t, append(fresh(t), "BERTH_OBJECT_STORE="+address, "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_EC2_METADATA_DISABLED=true", "HOME=/nonexistent"))
		if !strings.Contains(said, why) {
			t.Errorf("%s:\n%s", address, said)
		}
	}
	for address, says := range map[string]string{"": "objects", "none": "workspaces are not saved"} {
		p := start(t, append(fresh(t), "BERTH_OBJECT_STORE="+address))
		ready, err := p.client(t).Ready(t.Context())
		if err != nil || !strings.Contains(fmt.Sprint(ready.Checks), "object store ok") || !strings.Contains(fmt.Sprint(ready.Checks), says) {
			t.Errorf("%q: %+v, %v", address, ready, err)
		}
		c := p.client(t)
		make1(t, c, api.CreateSandbox{Name: "box"})
		_, err = c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
		if want := map[string]api.Code{"none": api.CodeUnsupported}[address]; problem(err).Code != want {
			t.Errorf("%q: %v", address, err)
		}
	}
}
