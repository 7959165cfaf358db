package app_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// fetch makes a request as it is, which a client would clean.
func (a *arena) fetch(method, path string, body io.Reader, header ...string) (int, string) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, a.server.url, body)
	if err != nil {
		a.Fatal(err)
	}
	r.URL.Opaque = strings.TrimPrefix(a.server.url, "http:") + path
	r.Header.Set("Authorization", "Bearer "+testKey)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	plainly := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := plainly.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		a.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// files is the path of a sandbox's files.
const files = "/api/v1/sandboxes/box/files/"

// Paths that lead out in any spelling, or are none, are refused as such, and nothing is read or written.
func TestPathsThatLeadOutAreRefused(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	outside := []string{
		"..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "../../etc/passwd", "a/../../x", "..", "%2e%2e", "..%5c..%5cetc",
		"%2fetc%2fpasswd", "/etc/passwd", "//etc/passwd", "a/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "..%2F", "%2E%2E%2Fx",
		"....//etc/passwd", "....", "...%2fx", "~root", "~", "%252e%252e",
	}
	invalid := []string{"a%00b", "%00", "a//b", strings.Repeat("a", 5000), strings.Repeat("a/", 3000) + "b", "%ff%fe", "a%0ab", "."}
	for _, name := range append(outside, invalid...) {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			status, body := a.fetch(method, files+name, strings.NewReader("x"))
			if status != http.StatusBadRequest || !strings.Contains(body, `"path_outside_workspace"`) && !strings.Contains(body, `"invalid_path"`) {
				t.Errorf("%s %.60s: %d %.200s", method, name, status, body)
			}
		}
		if status, body := a.fetch(http.MethodGet, "/api/v1/sandboxes/box/files?path="+strings.ReplaceAll(name, "/", "%2f"), nil); name != "." && status != http.StatusBadRequest {
			t.Errorf("list %.60s: %d %.200s", name, status, body)
		}
	}
	for _, name := range outside {
		if _, body := a.fetch(http.MethodGet, files+name, nil); !strings.Contains(body, string(api.CodePathOutside)) {
			t.Errorf("%s: %s", name, body)
		}
	}
	// These look as if they led somewhere, and are plain names.
	for _, name := range []string{"..a", "a..", "$HOME", "a~"} {
		if status, body := a.fetch(http.MethodGet, files+name, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// Links are shown as links. What they lead to, on the host or in the sandbox, is neither read nor written
// nor archived through them.
func TestLinksAreNeverFollowedOut(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	const secret = "canary-behind-a-link"
	a := newArena(t, "")
	a.box("box", "")
	host := filepath.Join(a.public, "secret")
	if err := os.WriteFile(host, []byte(secret), 0o666); err != nil {
		t.Fatal(err)
	}
	a.sh("box", "root", "mkdir -p "+a.public+"/in && echo "+secret+" > "+host+" && chmod -R 777 "+a.public)
	targets := []string{host, a.public, "/etc/passwd", "/proc/self/environ", "/proc/self/root" + host, "/proc/self/fd/5", "../../../../../../.." + host, "/"}
	for i, target := range targets {
		a.sh("box", "agent", fmt.Sprintf("ln -s %s /workspace/link-%d", target, i))
		name := fmt.Sprintf("link-%d", i)
		if st, err := a.Sandboxes.StatFile(t.Context(), "box", "", name); err != nil || st.Type != api.FileSymlink || st.Target != target {
			t.Errorf("%+v, %v", st, err)
		}
		for _, at := range []string{name, name + "/secret", name + "/passwd"} {
			if status, body := a.fetch(http.MethodGet, files+at, nil); status < 400 || strings.Contains(body, secret) || strings.Contains(body, "root:") {
				t.Errorf("read %s → %s: %d %s", at, target, status, body)
			}
		}
		for _, at := range []string{name + "/secret", name + "/new"} {
			if status, body := a.fetch(http.MethodPut, files+at, strings.NewReader("overwritten")); status < 400 {
				t.Errorf("write %s → %s: %d %s", at, target, status, body)
			}
			if status, body := a.fetch(http.MethodDelete, files+at, nil); status < 400 {
				t.Errorf("delete %s → %s: %d %s", at, target, status, body)
			}
		}
	}
	if got := a.sh("box", "root", "cat "+host); got != secret+"\n" {
		t.Errorf("a file of the sandbox was changed through a link: %q", got)
	}
	if got, err := os.ReadFile(host); err != nil || string(got) != secret {
		t.Errorf("a file of the machine was changed through a link: %q, %v", got, err)
	}
	a.archived(secret, len(targets))
	for f, err := range a.Sandboxes.ListFiles(t.Context(), "box", client.FileFilter{Depth: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f.Path, "/") {
			t.Errorf("%s is listed through a link", f.Path)
		}
	}
}

// archived checks that an archive of the workspace holds links as links and no secret.
func (a *arena) archived(secret string, links int) {
	a.Helper()
	d, err := a.Sandboxes.DownloadArchive(a.Context(), "box", "", "", false)
	if err != nil {
		a.Fatal(err)
	}
	defer d.Close()
	var all bytes.Buffer
	found := 0
	for r := tar.NewReader(io.TeeReader(d, &all)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			a.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink {
			found++
		}
	}
	if found != links || bytes.Contains(all.Bytes(), []byte(secret)) {
		a.Errorf("%d links of %d are archived", found, links)
	}
}

// A process swaps a directory for a link as fast as it can while files are read, written, listed and
// archived through that name. Not one foreign byte comes out, and none goes in.
func TestSwapOfFolderAndLinkLeaksNothing(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	const secret = "canary-behind-a-swap"
	a := newArena(t, "")
	a.box("box", "")
	// On the machine, and outside of the workspace where the agent may write: only the path keeps the
	// server away from it.
	host := filepath.Join(a.public, "target")
	if err := os.Mkdir(host, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, "file"), []byte(secret+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(host, 0o777); err != nil {
		t.Fatal(err)
	}
	a.sh("box", "agent", "mkdir /tmp/target && echo "+secret+" > /tmp/target/file && cp -r /tmp/target /home/agent/target")
	for i, target := range []string{host, "/tmp/target", "../home/agent/target"} {
		place := fmt.Sprintf("swap-%d", i)
		a.await(a.spawn("box", api.Exec{Command: []string{"/workspace/attacker", "swap", "/workspace/" + place, target}}), "swapping")
		a.hammer(place, secret)
	}
	for _, dir := range []string{"/tmp/target", "/home/agent/target"} {
		if got := a.sh("box", "agent", "cat "+dir+"/*"); got != secret+"\n" {
			t.Errorf("%s was changed through a link: %q", dir, got)
		}
	}
	if entries, err := os.ReadDir(host); err != nil || len(entries) != 1 {
		t.Errorf("the machine's directory was changed through a link: %v, %v", entries, err)
	}
	a.works("box", 1)
}

// hammer works on the files of a folder that is never the same, and counts what got through.
func (a *arena) hammer(place, secret string) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), time.Duration(testkit.Size(a.T, "files.swap_ms"))*time.Millisecond/3)
	defer cancel()
	var own, refused atomic.Int64
	judge := func(data []byte, err error) error {
		switch {
		case bytes.Contains(data, []byte(secret)):
			return fmt.Errorf("foreign bytes: %q", data)
		case err != nil:
			refused.Add(1)
		default:
			own.Add(1)
		}
		return nil
	}
	var all errgroup.Group
	for _, work := range []func() ([]byte, error){
		func() ([]byte, error) {
			return a.slurp(a.Sandboxes.ReadFile(ctx, "box", "", place+"/file", client.ReadOptions{}))
		},
		func() ([]byte, error) { return a.slurp(a.Sandboxes.DownloadArchive(ctx, "box", "", place, false)) },
		func() ([]byte, error) {
			_, _, err := a.Sandboxes.WriteFile(ctx, "box", "", place+"/new", strings.NewReader("written"), client.WriteOptions{})
			return nil, err
		},
		func() ([]byte, error) {
			return nil, a.Sandboxes.DeleteFile(ctx, "box", "", place+"/new", false)
		},
		func() ([]byte, error) {
			var names []byte
			for f, err := range a.Sandboxes.ListFiles(ctx, "box", client.FileFilter{Path: place, Depth: 3}) {
				if err != nil {
					return nil, err
				}
				names = append(names, f.Path...)
			}
			return names, nil
		},
	} {
		all.Go(func() error {
			for ctx.Err() == nil {
				if err := judge(work()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		a.Error(err)
	}
	a.Logf("%s: %d times its own, %d times refused", place, own.Load(), refused.Load())
	if own.Load() == 0 || refused.Load() == 0 {
		a.Errorf("%s was not swapped: %d times its own, %d times refused", place, own.Load(), refused.Load())
	}
}

func (a *arena) slurp(d *client.Download, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(d)
}

// What is no plain file is refused at once, however one asks for it, and left out of archives. So is
// another user's file that has a second name in the workspace; the agent's own files have as many as it likes.
func TestSpecialFilesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	a.sh("box", "root", `echo foreign > /home/foreign && chmod 666 /home/foreign && ln /home/foreign /workspace/hard`)
	a.sh("box", "agent", `mkfifo /workspace/pipe && echo plain > /workspace/plain && echo linked > /home/agent/linked && ln /home/agent/linked /workspace/own
		perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "/workspace/socket", Listen => 1)'`)
	for name, kind := range map[string]string{"pipe": api.FilePipe, "socket": api.FileSocket, "hard": api.FileRegular} {
		if st, err := a.Sandboxes.StatFile(t.Context(), "box", "", name); err != nil || st.Type != kind {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
		began := time.Now()
		status, body := a.fetch(http.MethodGet, files+name, nil)
		if status != http.StatusConflict || !strings.Contains(body, string(api.CodeSpecialFile)) {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if status, body := a.fetch(http.MethodPut, files+name, strings.NewReader("x")); status != http.StatusConflict {
			t.Errorf("write %s: %d %s", name, status, body)
		}
		if took := time.Since(began); took > patience {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
	if status, body := a.fetch(http.MethodGet, files+"own", nil); status != http.StatusOK || body != "linked\n" {
		t.Errorf("own: %d %s", status, body)
	}
	d, err := a.Sandboxes.DownloadArchive(t.Context(), "box", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names := map[string]bool{}
	r := tar.NewReader(d)
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		names[h.Name] = true
	}
	if _, err := io.Copy(io.Discard, d); err != nil || !names["plain"] || !names["own"] || names["pipe"] || names["socket"] || names["hard"] || d.Skipped() != 3 {
		t.Errorf("archived %v, %d skipped, %v", names, d.Skipped(), err)
	}
}

// Names that a shell or a terminal would obey are names.
func TestHostileNamesAreLiteral(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	names := []string{"-rf", "--help", "; id", "$(id)", "`id`", `"quoted"`, "'quoted'", "a b", "*", "?", "&& id", "| id", "a~", "\u202etxt.exe", "new\\nline", "{}", "100%", "=", "#x", "ü", "<img onerror=x>"}
	for _, name := range names {
		if _, _, err := a.Sandboxes.WriteFile(t.Context(), "box", "", name, strings.NewReader("content of "+name), client.WriteOptions{}); err != nil {
			t.Errorf("write %q: %v", name, err)
			continue
		}
		data, err := a.slurp(a.Sandboxes.ReadFile(t.Context(), "box", "", name, client.ReadOptions{}))
		if err != nil || string(data) != "content of "+name {
			t.Errorf("read %q: %q, %v", name, data, err)
		}
	}
	listed := map[string]bool{}
	for f, err := range a.Sandboxes.ListFiles(t.Context(), "box", client.FileFilter{Hidden: true}) {
		if err != nil {
			t.Fatal(err)
		}
		listed[f.Name] = true
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("%q is not listed", name)
		}
	}
	if len(listed) != len(names)+1 { // and the attacker
		t.Errorf("there are %d files: %v", len(listed), listed)
	}
	// A line break in a name is a byte like any other, made inside.
	a.sh("box", "agent", `printf x > "$(printf 'two\nlines')"`)
	if st, err := a.Sandboxes.StatFile(t.Context(), "box", "", "two\nlines"); err != nil && problem(err).Code != api.CodeInvalidPath {
		t.Errorf("%+v, %v", st, err)
	}
	a.works("box", 1)
}
