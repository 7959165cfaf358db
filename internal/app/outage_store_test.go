package app_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// flaky stands before an S3 server, and refuses, hangs or answers 503 when told to.
type flaky struct {
	mode atomic.Pointer[string]
	real *httputil.ReverseProxy

	mu    sync.Mutex
	asked []string // paths
}

func newFlaky(t *testing.T, mode string) (*flaky, s3test.Bucket) {
	t.Helper()
	b := s3test.New(t)
	target, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{real: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
	}}}
	f.mode.Store(&mode)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	b.Endpoint = server.URL
	return f, b
}

func (f *flaky) set(mode string) { f.mode.Store(&mode) }

// about is how many requests were about a sandbox's prefix.
func (f *flaky) about(id string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.asked {
		if strings.Contains(path, "/"+id+"/") {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path)
	f.mu.Unlock()
	switch mode := *f.mode.Load(); mode {
	case "hangs", "stalls", "writes":
		if mode == "writes" && (r.Method == http.MethodGet || r.Method == http.MethodHead) { // only writes hang
			f.real.ServeHTTP(w, r)
			return
		}
		if mode == "stalls" && strings.HasSuffix(r.URL.Path, "/.berth-ready") { // it answers, and then no more
			f.real.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // a request that is not read to its end never notices that its client left
		<-r.Context().Done()
	case "refuses":
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	case "unavailable":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>ServiceUnavailable</Code></Error>`)
	default:
		f.real.ServeHTTP(w, r)
	}
}

func (p *process) ready(t *testing.T) api.Ready {
	t.Helper()
	res, err := http.Get(p.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	ready, err := p.client(t).Ready(t.Context())
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("readyz: %d, %+v, %v", res.StatusCode, ready, err)
	}
	return ready
}

// A server starts, and sandboxes are made, used, stopped, started and removed, while the object store is
// away. What was not saved is saved once it is back.
func TestAStoreOutageIsNoOutage(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	for _, mode := range []string{"hangs", "refuses", "unavailable"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f, bucket := newFlaky(t, mode)
			p := start(t, append(onS3(local(t), bucket), "BERTH_SAVE_AFTER=1s", "BERTH_RECONCILE_INTERVAL=500ms"))
			if got := p.ready(t); got.Status != "degraded" {
				t.Errorf("readyz says %+v", got)
			}
			c := p.client(t, client.WithTimeout(time.Minute), client.WithAttempts(1))
			b := make1(t, c, api.CreateSandbox{Name: "box"})
			b.sh("echo kept > kept.txt")
			if s, err := c.Sandboxes.Stop(t.Context(), "box"); err != nil || s.State != "stopped" || s.UnsavedSince == nil {
				t.Fatalf("stop: %s, unsaved since %v, %v", s.State, s.UnsavedSince, err)
			}
			if s, err := c.Sandboxes.Start(t.Context(), "box"); err != nil || s.State != "running" {
				t.Fatalf("start: %s, %v", s.State, err)
			}
			b.says("cat kept.txt", "kept\n")

			other := make1(t, c, api.CreateSandbox{Name: "other"})
			other.sh("echo x > x")
			if err := c.Sandboxes.Delete(t.Context(), "other", client.SkipSave()); err != nil {
				t.Errorf("a delete without a save: %v", err)
			}

			f.set("works")
			testkit.Eventually(t, 2*time.Minute, func() error {
				if s := b.get(); s.UnsavedSince != nil {
					return fmt.Errorf("unsaved since %v: %+v", s.UnsavedSince, s.SaveError)
				}
				return nil
			})
			if got := len(b.versions()); got != 1 {
				t.Errorf("%d versions after the outage", got)
			}
			testkit.Eventually(t, time.Minute, func() error {
				if got := p.ready(t); got.Status != "ready" {
					return fmt.Errorf("readyz says %+v", got)
				}
				return nil
			})

			// What needs a version that is not here waits, and says so.
			if _, err := c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
				t.Fatal(err)
			}
			f.set(mode)
			if _, err := c.Sandboxes.Start(t.Context(), "box"); problem(err).Code != api.CodeBlobUnreachable {
				t.Errorf("a start that needs a version: %v", err)
			}
			f.set("works")
			testkit.Eventually(t, time.Minute, func() error {
				_, err := c.Sandboxes.Start(t.Context(), "box")
				return err
			})
			b.says("cat kept.txt", "kept\n")
		})
	}
}

// list reads the versions, and returns the error of that.
func (b box) list() error {
	for _, err := range b.c.Sandboxes.Versions(b.Context(), b.name) {
		if err != nil {
			return err
		}
	}
	return nil
}

// What needs the store reports within seconds that it does not answer. A client that waits for a minute would
// otherwise learn nothing: the limits of requests to the store, and its retries, take longer.
func TestWhatNeedsTheStoreSaysThatItDoesNotAnswer(t *testing.T) {
	testkit.Proves(t, "S7", "S18")
	t.Parallel()
	f, bucket := newFlaky(t, "works")
	p := start(t, append(onS3(local(t), bucket), "BERTH_SAVE_AFTER=1h"))
	c := p.client(t, client.WithTimeout(40*time.Second), client.WithAttempts(1))
	s := saved(t, c, "box")
	versions := box{t, c, "box"}.versions()
	f.set("hangs")
	calls := []struct {
		name string
		do   func() error
		code api.Code
	}{
		{"list versions", func() error { return box{t, c, "box"}.list() }, api.CodeBlobUnreachable},
		{"get a version", func() error { _, err := c.Sandboxes.Version(t.Context(), "box", versions[0].ID); return err }, api.CodeBlobUnreachable},
		{"verify", func() error { _, err := c.Sandboxes.Verify(t.Context(), "box"); return err }, api.CodeBlobUnreachable},
		{"sync", func() error { _, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); return err }, api.CodeBlobUnreachable},
		{"terminate", func() error { _, err := c.Sandboxes.Terminate(t.Context(), "box"); return err }, api.CodeSyncFailed},
	}
	for _, call := range calls {
		if err := call.do(); problem(err).Code != call.code {
			t.Errorf("%s: %v", call.name, err)
		}
	}
	out, code := berth(t, p.at(), "rm", "--yes", "box")
	if code != 0 || !strings.Contains(out, "did not answer") || !strings.Contains(out, "--no-save") {
		t.Errorf("%d, %s", code, out)
	}
	f.set("works")
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := c.Sandboxes.Get(t.Context(), s.ID); problem(err).Code != api.CodeDeleted {
			return fmt.Errorf("the delete goes on: %v", err)
		}
		return nil
	})
}

// Wrong credentials are no outage: the server does not start.
func TestWrongCredentialsRefuseTheStart(t *testing.T) {
	t.Parallel()
	b := s3test.New(t)
	env := onS3(local(t), b)
	for i, word := range env {
		if strings.HasPrefix(word, "AWS_SECRET_ACCESS_KEY=") {
			env[i] = "AWS_SECRET_ACCESS_KEY=wrong"
		}
	}
	p, up := tryStart(t, env)
	if up {
		t.Fatalf("the server started:\n%s", p.logs)
	}
}

// A store that stops answering in the middle of a save does not hold up what else is wanted of the sandbox.
func TestStopDuringASaveThatTheStoreLeavesHanging(t *testing.T) {
	testkit.Proves(t, "S7")
	t.Parallel()
	f, bucket := newFlaky(t, "works")
	p := start(t, append(onS3(local(t), bucket), "BERTH_SAVE_AFTER=1h"))
	c := p.client(t, client.WithTimeout(2*time.Minute), client.WithAttempts(1))
	s := saved(t, c, "box")
	f.set("stalls")
	before := f.about(s.ID)
	refused := make(chan error, 1)
	go func() {
		_, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
		refused <- err
	}()
	testkit.Eventually(t, time.Minute, func() error {
		if f.about(s.ID) == before {
			return fmt.Errorf("the sync has not begun")
		}
		return nil
	})
	f.set("hangs")
	begun := time.Now()
	if got, err := c.Sandboxes.Stop(t.Context(), "box"); err != nil || got.State != "stopped" {
		t.Errorf("stop: %s, %v", got.State, err)
	}
	if took := time.Since(begun); took > 40*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if err := <-refused; problem(err).Code != api.CodeBlobUnreachable || !strings.Contains(err.Error(), "stopped answering") {
		t.Errorf("the sync ended with %v", err)
	}
}

// A store that answers reads and hangs on writes, as one whose disks are full may, blocks nothing: turns end, syncs and
// last saves report that it does not answer, and servers, stops and starts do without it.
func TestStoreThatHangsOnWritesOnly(t *testing.T) {
	testkit.Proves(t, "S7", "S13")
	t.Parallel()
	f, bucket := newFlaky(t, "works")
	env := append(onS3(local(t), bucket), "BERTH_SAVE_AFTER=1h", "BERTH_DELETE_SANDBOX_WITH_CONVERSATION=true")
	p := start(t, env)
	c := p.client(t, client.WithTimeout(2*time.Minute), client.WithAttempts(1))
	saved(t, c, "box")
	saved(t, c, "gone")
	saved(t, c, "purged")
	conv := created(t, p)
	f.set("writes")

	for range 2 { // the next prompt runs, too
		if last := finalEvent(t, c, conv, "run echo hello > hello.txt"); last.Type != api.EventTurnFinished || last.Status != api.TurnCompleted || !last.VersionPending {
			t.Errorf("the turn ended with %+v", last)
		}
	}
	b := box{t, c, "box"}
	b.sh("echo more > more.txt")
	if _, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); problem(err).Code != api.CodeBlobUnreachable {
		t.Errorf("sync: %v", err)
	}
	if s, err := c.Sandboxes.Stop(t.Context(), "box"); err != nil || s.State != "stopped" || s.UnsavedSince == nil {
		t.Errorf("stop: %s, unsaved since %v, %v", s.State, s.UnsavedSince, err)
	}
	if s, err := c.Sandboxes.Start(t.Context(), "box"); err != nil || s.State != "running" {
		t.Errorf("start: %s, %v", s.State, err)
	}
	b.says("cat more.txt", "more\n")
	if _, err := c.Sandboxes.Terminate(t.Context(), "box"); problem(err).Code != api.CodeSyncFailed {
		t.Errorf("terminate: %v", err)
	}
	box{t, c, "gone"}.sh("echo more > more.txt")
	if out, code := berth(t, p.at(), "rm", "--yes", "gone"); code != 0 || !strings.Contains(out, "--no-save") {
		t.Errorf("rm: %d, %s", code, out)
	}
	if out, code := berth(t, p.at(), "rm", "--yes", "--no-save", "--purge", "purged"); code != 0 {
		t.Errorf("rm --purge: %d, %s", code, out)
	}
	if err := p.end(t); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	p = start(t, env)
	if got := p.ready(t); got.Status != "degraded" {
		t.Errorf("readyz says %+v", got)
	}
	c = p.client(t, client.WithTimeout(2*time.Minute), client.WithAttempts(1))
	b = box{t, c, "box"}
	b.says("cat more.txt", "more\n")
	f.set("works")
	testkit.Eventually(t, 2*time.Minute, func() error {
		_, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
		return err
	})
	testkit.Eventually(t, 2*time.Minute, func() error {
		var pending int
		for turn, err := range c.Conversations.Turns(t.Context(), conv) {
			if err != nil {
				return err
			}
			if turn.VersionPending || turn.Version == "" {
				pending++
			}
		}
		if pending > 0 {
			return fmt.Errorf("%d turns have no version", pending)
		}
		return nil
	})
}

// finalEvent sends a prompt and returns the last event of its stream.
func finalEvent(t *testing.T, c *client.Client, conv, prompt string) (last api.TurnEvent) {
	t.Helper()
	turn, err := c.Conversations.Prompt(t.Context(), conv, api.Prompt{Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	return last
}
