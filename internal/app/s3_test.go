package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// berth runs the program as a person would and returns what it said.
func berth(t *testing.T, env []string, words ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t), words...)
	cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir()), env...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// at is the environment of the program that talks to a server.
func (p *process) at() []string { return []string{"BERTH_SERVER=" + p.url, "BERTH_API_KEY=" + testKey} }

// On a real S3 server a workspace is saved, comes back in the next life and goes back to an older version;
// the log says what was moved; and nobody inside finds the credentials.
func TestWorkspacesOnS3(t *testing.T) {
	testkit.Proves(t, "S7", "S9", "S10", "S16", "O1")
	t.Parallel()
	p := start(t, append(onS3(local(t), s3test.New(t)), "BERTH_LOG_FORMAT=json"))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	b.sh(tangle)
	b.sh("head -c 20000000 /dev/urandom > large; echo first > f")
	sum := b.sh("sha256sum large").Stdout
	before := b.sh(look).Stdout
	first, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{Note: "first"})
	if err != nil || !first.New || first.Stats.BytesTransferred < 20000000 {
		t.Fatalf("%+v, %v", first, err)
	}
	testkit.Eventually(t, time.Minute, func() error { return syncLogged(p.logs.String(), first) })
	findCredentials(t, b)
	if _, err := c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if after := b.sh(look).Stdout; after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	b.says("sha256sum large", sum)
	b.sh("echo second > f; rm large; echo new > g")
	if _, err := c.Sandboxes.Archive(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	b.says("cat f g; ls large 2>&1 | grep -c cannot", "second\nnew\n1\n")
	res, err := c.Sandboxes.Restore(t.Context(), "box", api.RestoreVersion{Version: first.Version})
	if err != nil || res.From != first.Version {
		t.Fatalf("%+v, %v", res, err)
	}
	if after := b.sh(look).Stdout; after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	b.says("sha256sum large; cat f; ls g 2>&1 | grep -c cannot", sum+"first\n1\n")
	if v, err := c.Sandboxes.Verify(t.Context(), "box"); err != nil || v.Versions != 3 || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	findCredentials(t, b)
	for _, secret := range []string{s3test.SecretKey, s3test.AccessKey} {
		if strings.Contains(p.logs.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// syncLogged looks for the numbers of a sync and its state files in a server's log.
func syncLogged(log string, done api.Synced) error {
	type line struct {
		Level, Msg, Version, Path string
		Sandbox                   string `json:"sandbox_id"`
		Size                      int
		Stats                     api.SyncStats
	}
	var pushed, written []line
	for text := range strings.Lines(log) {
		var l line
		if json.Unmarshal([]byte(text), &l) != nil || l.Sandbox != done.SandboxID || l.Level != "INFO" {
			continue
		}
		switch l.Msg {
		case "workspace pushed":
			pushed = append(pushed, l)
		case "state file written":
			written = append(written, l)
		}
	}
	if len(pushed) != 1 || pushed[0].Version != done.Version || pushed[0].Stats != done.Stats {
		return fmt.Errorf("the sync is logged as %+v", pushed)
	}
	if len(written) != 2 || !strings.HasSuffix(written[0].Path, done.Version+"/.sandbox-state") || written[1].Path != "/workspace/.sandbox-state" ||
		written[0].Size == 0 || written[0].Size != written[1].Size {
		return fmt.Errorf("the state files are logged as %+v", written)
	}
	return nil
}

// findCredentials looks for the store's credentials where a sandbox can look, as its root.
func findCredentials(t *testing.T, b box) {
	t.Helper()
	for _, secret := range []string{s3test.SecretKey, s3test.AccessKey, "AWS_SECRET", "BERTH_OBJECT_STORE"} {
		half := len(secret) / 2 // so that the command does not find itself
		res, err := b.c.Sandboxes.Exec(t.Context(), b.name, api.Exec{User: "root", Command: api.Shell(fmt.Sprintf(
			`w=%s; w="${w}%s"; env | grep -a "$w"; for f in /proc/[0-9]*; do cat $f/environ $f/cmdline 2>/dev/null | tr '\0' '\n' | grep -a "$w" && echo "in $f"; ls -l $f/fd 2>/dev/null | grep -a "$w"; done
			grep -rla "$w" /workspace /home /root /tmp /run /etc /var/tmp 2>/dev/null; echo looked; ls /proc/1/environ`, secret[:half], secret[half:]))})
		if err != nil || res.Stdout != "looked\n/proc/1/environ\n" {
			t.Errorf("%s: %s %s, %v", secret, res.Stdout, res.Stderr, err)
		}
	}
}

// On a store that does no conditional writes the lease of the database keeps servers apart: of two that
// save one sandbox at once neither loses a version. Without a server nothing does, and so it is refused.
func TestStoreWithoutConditionalWrites(t *testing.T) {
	testkit.Proves(t, "S7", "S11")
	t.Parallel()
	_, bucket := newGate(t, s3test.New(t), true)
	env := onS3(append(local(t), "DATABASE_URL="+storetest.Postgres(t)), bucket)
	one, two := start(t, env), start(t, env)
	for _, p := range []*process{one, two} {
		if !strings.Contains(p.logs.String(), "does not keep the promise of conditional writes") {
			t.Error("the server does not say what its store lacks")
		}
		if ready, err := p.client(t).Ready(t.Context()); err != nil || !strings.Contains(fmt.Sprint(ready.Checks), "without conditional writes") {
			t.Errorf("%+v, %v", ready, err)
		}
	}
	b := make1(t, one.client(t), api.CreateSandbox{Name: "box"})
	var mu sync.Mutex
	var made, files []string
	var wg sync.WaitGroup
	for i, p := range []*process{one, two, one, two} {
		c := p.client(t)
		wg.Go(func() {
			mine := box{t, c, "box"}
			for round := range testkit.Size(t, "unconditional.rounds") {
				name := fmt.Sprintf("f-%d-%d", i, round)
				if res, err := c.Sandboxes.Exec(t.Context(), mine.name, api.Exec{Command: api.Shell("echo x > " + name)}); err != nil || res.ExitCode != 0 {
					t.Errorf("%+v, %v", res, err)
					return
				}
				res, err := c.Sandboxes.Sync(t.Context(), mine.name, api.SyncWorkspace{})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				files = append(files, name)
				if res.New {
					made = append(made, res.Version)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var listed []string
	all := b.versions()
	for i, v := range all {
		if listed = append(listed, v.ID); v.Sequence != int64(len(all)-i) || i > 0 && all[i-1].Parent != v.ID {
			t.Errorf("version %s has the number %d and the parent %s", v.ID, v.Sequence, v.Parent)
		}
	}
	slices.Sort(made)
	slices.Sort(listed)
	if !slices.Equal(made, listed) {
		t.Errorf("made %q\nlisted %q", made, listed)
	}
	if v, err := b.c.Sandboxes.Verify(t.Context(), "box"); err != nil || v.Versions != len(all) || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := b.c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	b.says("ls | sort", strings.Join(files, "\n")+"\n")

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := berth(t, env, "workspace", "push", "--store", bucket.URL("by-hand"), dir)
	if code != 125 || !strings.Contains(out, "does not do conditional writes") || !strings.Contains(out, "hint: ") {
		t.Errorf("by hand: %d\n%s", code, out)
	}
}

// Until the time is over a deleted sandbox's versions can be restored into a new one, over HTTP and by hand;
// then they are gone, and those of others are not.
func TestVersionsOfADeletedSandbox(t *testing.T) {
	testkit.Proves(t, "O1")
	t.Parallel()
	env := local(t)
	p := start(t, env)
	c := p.client(t)
	alive, b := make1(t, c, api.CreateSandbox{Name: "alive"}), make1(t, c, api.CreateSandbox{Name: "box"})
	alive.sh("echo alive > f")
	b.sh("echo one > f")
	first, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sandboxes.Sync(t.Context(), "alive", api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	b.sh("echo last > f")
	id := first.SandboxID
	if err := c.Sandboxes.Delete(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sandboxes.Restore(t.Context(), id, api.RestoreVersion{Into: "heir"}); err != nil {
		t.Fatal(err)
	}
	box{t, c, "heir"}.says("cat f", "last\n")
	if out, code := berth(t, p.at(), "versions", id); code != 0 || !strings.Contains(out, first.Version) {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := berth(t, p.at(), "restore", id, first.Version[len(first.Version)-6:], "--into", "by-hand"); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	box{t, c, "by-hand"}.says("cat f", "one\n")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}

	p = start(t, append(env, "BERTH_DELETED_RETENTION=1s"))
	c = p.client(t)
	gone := box{t, c, id}
	testkit.Eventually(t, 2*time.Minute, func() error {
		if n := len(gone.versions()); n > 0 {
			return fmt.Errorf("%d versions are left", n)
		}
		return nil
	})
	_, err = c.Sandboxes.Restore(t.Context(), id, api.RestoreVersion{Into: "late"})
	if p := problem(err); p.Code != api.CodeUnknownVersion || !strings.Contains(p.Detail, "it was deleted at") {
		t.Errorf("%v", err)
	}
	if got := (box{t, c, "alive"}).versions(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	box{t, c, "heir"}.says("cat f", "last\n")
}

// A purge that the store refuses is not forgotten: it is tried again by itself, and anybody can see why it
// is not done yet.
func TestPurgeThatTheStoreRefuses(t *testing.T) {
	testkit.Proves(t, "O1")
	t.Parallel()
	bucket := s3test.New(t)
	g, through := newGate(t, bucket, false)
	p := start(t, append(onS3(local(t), through), "BERTH_RECONCILE_INTERVAL=100ms", "BERTH_DELETED_RETENTION=10s"))
	once := p.client(t, client.WithAttempts(1))
	ids := map[string]string{}
	for _, name := range []string{"going", "gone"} {
		make1(t, once, api.CreateSandbox{Name: name}).sh("echo x > f")
		res, err := once.Sandboxes.Sync(t.Context(), name, api.SyncWorkspace{})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = res.SandboxID
	}
	if err := once.Sandboxes.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	g.noDeletes.Store(true)
	if err := once.Sandboxes.Delete(t.Context(), ids["gone"], client.Purge()); problem(err).Code != api.CodeBlobDenied {
		t.Errorf("of one that is gone: %v", err)
	}
	go func() { _ = once.Sandboxes.Delete(t.Context(), "going", client.Purge()) }()
	testkit.Eventually(t, 2*time.Minute, func() error {
		s, err := once.Sandboxes.Get(t.Context(), ids["going"])
		if err != nil || s.State != "terminating" || s.Error == nil || s.Error.Code != api.CodeBlobDenied {
			return fmt.Errorf("%+v, %v", s, err)
		}
		ready, err := once.Ready(t.Context())
		if err != nil || !strings.Contains(fmt.Sprint(ready.Checks), "could not be removed (1)") {
			return fmt.Errorf("%+v, %v", ready, err)
		}
		return nil
	})
	for _, id := range ids {
		if n := len((box{t, once, id}).versions()); n != 1 {
			t.Errorf("%d versions", n)
		}
	}
	g.noDeletes.Store(false)
	testkit.Eventually(t, 3*time.Minute, func() error {
		for name, id := range ids {
			if n := len((box{t, once, id}).versions()); n > 0 {
				return fmt.Errorf("%s has %d versions", name, n)
			}
		}
		_, err := once.Sandboxes.Get(t.Context(), ids["going"])
		if problem(err).Code != api.CodeDeleted {
			return fmt.Errorf("going: %w", err)
		}
		ready, err := once.Ready(t.Context())
		if err != nil || strings.Contains(fmt.Sprint(ready.Checks), "could not be removed") {
			return fmt.Errorf("%+v, %v", ready, err)
		}
		return nil
	})
}
