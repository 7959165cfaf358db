package httpapi

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

// fileSite is a server with a sandbox named box, whose files are in two directories of the test.
type fileSite struct {
	*site
	work, home, outside string
	roots               map[string]string // where the roots of its files are
	box                 string            // the sandbox's path
}

func newFileSite(t *testing.T, change ...func(*Options)) *fileSite {
	t.Helper()
	base := t.TempDir()
	f := &fileSite{work: base + "/work", home: base + "/home", outside: base + "/outside", box: sandboxesPath + "/box"}
	for _, dir := range []string{f.work, f.home, f.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.roots = map[string]string{files.WorkingDir: f.work, files.HomeDir: f.home}
	f.site = newSite(t, append(change, func(o *Options) {
		o.inFake(func(d *fake.Driver) driver.Driver { return dirDriver{d, &f.roots} })
	})...)
	f.post(sandboxesPath, `{"name":"box","driver":"fake"}`).is(http.StatusCreated)
	f.place(f.outside+"/secret", secret)
	return f
}

const secret = "the canary outside"

// place writes a file behind the server's back.
func (f *fileSite) place(path, content string) {
	f.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fileSite) put(path, content string, header ...string) answer {
	f.t.Helper()
	c := call{method: http.MethodPut, path: f.box + path, key: f.site.write, body: content, header: map[string]string{"Content-Type": "text/html"}}
	for i := 0; i+1 < len(header); i += 2 {
		c.header[header[i]] = header[i+1]
	}
	return f.do(c)
}

func (f *fileSite) fetch(path string, header ...string) answer {
	f.t.Helper()
	c := call{path: f.box + path, key: f.site.read, header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		c.header[header[i]] = header[i+1]
	}
	return f.do(c)
}

func (f *fileSite) act(path, body string) answer {
	f.t.Helper()
	return f.do(call{method: http.MethodPost, path: f.box + path, key: f.site.write, body: body})
}

func TestFileIsWrittenReadAndDeleted(t *testing.T) {
	testkit.Proves(t, "V4")
	f := newFileSite(t)
	const html = "<img src=x onerror=alert(1)>"
	made := f.put("/files/a%20b/page.html?mode=755", html).is(http.StatusCreated)
	file := into[api.File](made)
	if file.Path != "a b/page.html" || file.Name != "page.html" || file.Type != "file" || file.Size != int64(len(html)) || file.Mode != "0755" || made.header.Get("ETag") != file.ETag {
		t.Errorf("made %+v with the tag %q", file, made.header.Get("ETag"))
	}
	got := f.fetch("/files/a%20b/page.html").is(http.StatusOK)
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment; filename=page.html",
		"Content-Length": "28", "Etag": file.ETag, "Accept-Ranges": "bytes", "Berth-File-Size": "28", "Berth-Truncated": "",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	if string(got.body) != html || got.header.Get("Last-Modified") == "" {
		t.Errorf("read %q, %v", got.body, got.header)
	}
	stat := into[api.File](f.fetch("/files/a%20b/page.html?stat=true").is(http.StatusOK))
	if stat != file {
		t.Errorf("stat %+v, want %+v", stat, file)
	}
	head := f.do(call{method: http.MethodHead, path: f.box + "/files/a%20b/page.html", key: f.site.read}).is(http.StatusOK)
	if len(head.body) != 0 || head.header.Get("Content-Length") != "28" {
		t.Errorf("HEAD: %q, %v", head.body, head.header)
	}
	f.put("/files/a%20b/page.html", "2").is(http.StatusOK)
	f.put("/files/a%20b/page.html", "3", "If-None-Match", "*").fails(api.CodePrecondition)
	f.put("/files/new", "3", "If-None-Match", "*").is(http.StatusCreated)
	if got := f.fetch("/files/a%20b/page.html"); string(got.body) != "2" {
		t.Errorf("read %q", got.body)
	}
	f.remove(f.box + "/files/a%20b").fails(api.CodeNotEmpty)
	f.remove(f.box + "/files/a%20b?recursive=true").is(http.StatusNoContent)
	f.remove(f.box + "/files/a%20b?recursive=true").fails(api.CodeFileNotFound)
	f.fetch("/files/a%20b/page.html").fails(api.CodeFileNotFound)
	f.put("/files/empty", "").is(http.StatusCreated)
	if got := f.fetch("/files/empty").is(http.StatusOK); len(got.body) != 0 {
		t.Errorf("an empty file: %q", got.body)
	}
}

func TestRangesAndConditions(t *testing.T) {
	f := newFileSite(t)
	tag := into[api.File](f.put("/files/f", "0123456789").is(http.StatusCreated)).ETag
	for _, c := range []struct {
		path, header, value string
		status              int
		body                string
	}{
		{"/files/f", "Range", "bytes=2-4", 206, "234"},
		{"/files/f", "Range", "bytes=-3", 206, "789"},
		{"/files/f", "Range", "bytes=7-", 206, "789"},
		{"/files/f", "If-None-Match", tag, 304, ""},
		{"/files/f", "If-None-Match", `"other"`, 200, "0123456789"},
		{"/files/f", "If-Match", tag, 200, "0123456789"},
		{"/files/f?max_bytes=4", "X-Other", "", 200, "0123"},
		{"/files/f?max_bytes=10", "X-Other", "", 200, "0123456789"},
		{"/files/f?max_bytes=4", "Range", "bytes=2-100", 206, "23"},
	} {
		a := f.fetch(c.path, c.header, c.value).is(c.status)
		if string(a.body) != c.body || (a.header.Get("Berth-Truncated") == "true") != strings.HasSuffix(c.path, "=4") {
			t.Errorf("%s, %s: %s: %q, %v", c.path, c.header, c.value, a.body, a.header)
		}
	}
	a := f.fetch("/files/f", "Range", "bytes=100-")
	a.fails(api.CodeInvalidRange)
	if a.header.Get("Content-Range") != "bytes */10" || a.header.Get("Content-Disposition") != "" {
		t.Errorf("refused range: %v", a.header)
	}
	f.fetch("/files/f", "If-Match", `"other"`).fails(api.CodePrecondition)
}

// B4 1 to 3: every spelling, and never a redirect or another route's answer.
func TestTraversalIsRefusedInEverySpelling(t *testing.T) {
	testkit.Proves(t, "V4")
	f := newFileSite(t)
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		path string
		code api.Code
	}{
		{"..%2f..%2fetc%2fpasswd", api.CodePathOutside}, {"..%2Foutside%2Fsecret", api.CodePathOutside}, {"../outside/secret", api.CodePathOutside},
		{"../../../etc/passwd", api.CodePathOutside}, {"a/../../outside/secret", api.CodePathOutside}, {"..", api.CodePathOutside}, {"a/..", api.CodePathOutside},
		{"%2e%2e/outside/secret", api.CodePathOutside}, {"%2e%2e%2foutside%2fsecret", api.CodePathOutside}, {".%2e/x", api.CodePathOutside}, {"%252e%252e%252fx", api.CodePathOutside},
		{"....//outside", api.CodePathOutside}, {`..%5coutside`, api.CodePathOutside}, {`a%5c..%5c..`, api.CodePathOutside},
		{"/etc/passwd", api.CodePathOutside}, {"//etc/passwd", api.CodePathOutside}, {"%2fetc%2fpasswd", api.CodePathOutside}, {"~root", api.CodePathOutside}, {"~root/.ssh/id", api.CodePathOutside},
		{"a%00b", api.CodeInvalidPath}, {"a%0ab", api.CodeInvalidPath}, {"%ff", api.CodeInvalidPath}, {"%c0%ae%c0%ae/x", api.CodeInvalidPath}, {long, api.CodeInvalidPath},
		{"a//b", api.CodeInvalidPath}, {"./a", api.CodeInvalidPath}, {"a/./b", api.CodeInvalidPath}, {"", api.CodeInvalidPath},
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "POST"} {
			status, body := f.raw(method, f.box+"/files/"+c.path)
			if status != c.code.Info().Status || method != "HEAD" && !strings.Contains(body, `"code":"`+string(c.code)+`"`) {
				t.Errorf("%s %s: %d %s, want %s", method, c.path, status, body, c.code)
			}
		}
		if strings.ContainsAny(c.path, "%/") || c.path == "" {
			continue
		}
		for _, query := range []string{"/files?path=", "/tree?path=", "/archive?path="} {
			f.fetch(query + c.path).fails(c.code)
		}
	}
	f.fetch("/files?path=%2fetc").fails(api.CodePathOutside)
	f.fetch("/files?path=a%0ab").fails(api.CodeInvalidPath)
	f.act("/files/a", `{"op":"move","to":"../x"}`).fails(api.CodePathOutside)
	f.fetch("/files/~$doc").fails(api.CodeFileNotFound)
}

// raw sends a request line as it is: clients clean paths before they send them.
func (f *fileSite) raw(method, path string) (int, string) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, path, f.admin)
	answer, err := io.ReadAll(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	status := 0
	_, _ = fmt.Sscanf(string(answer), "HTTP/1.1 %d", &status)
	return status, string(answer)
}

func TestLinksAndSpecialFilesOverHTTP(t *testing.T) {
	f := newFileSite(t)
	if err := errors.Join(os.Symlink(f.outside+"/secret", f.work+"/link"), os.Symlink(f.outside, f.work+"/dir"), unix.Mkfifo(f.work+"/pipe", 0o666), os.Chown(f.outside+"/secret", 4242, 4242), os.Link(f.outside+"/secret", f.work+"/hard")); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]api.Code{
		"/files/link": api.CodePathOutside, "/files/dir/secret": api.CodePathOutside, "/files?path=dir": api.CodePathOutside, "/tree?path=dir": api.CodePathOutside,
		"/archive?path=dir": api.CodePathOutside, "/files/pipe": api.CodeSpecialFile, "/files/hard": api.CodeSpecialFile, "/files/link/x": api.CodePathOutside,
	} {
		f.fetch(path).fails(code)
	}
	list := into[api.List[api.File]](f.fetch("/files").is(http.StatusOK)).Items
	var got []string
	for _, file := range list {
		got = append(got, file.Name+" "+file.Type+" "+file.Target)
	}
	want := []string{"dir symlink " + f.outside, "hard file ", "link symlink " + f.outside + "/secret", "pipe pipe "}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	tree := f.fetch("/tree").is(http.StatusOK)
	if bytes.Contains(tree.body, []byte(secret)) || !bytes.Contains(tree.body, []byte(`"type":"symlink"`)) {
		t.Errorf("tree %s", tree.body)
	}
	f.put("/files/pipe", "x").fails(api.CodeSpecialFile)
	f.put("/files/dir/new", "x").fails(api.CodePathOutside)
	archive := f.fetch("/archive").is(http.StatusOK)
	if bytes.Contains(archive.body, []byte(secret)) {
		t.Error("the archive holds files from outside")
	}
	if len(f.log.lines(t, "files left out of an archive")) != 1 {
		t.Error("the log does not say that files were left out")
	}
}

func TestListsOfFiles(t *testing.T) {
	f := newFileSite(t)
	for _, path := range []string{"a/one.go", "a/two.txt", "b", ".hidden", ".berth/state", "new\nline"} {
		f.place(f.work+"/"+path, path)
	}
	f.place(f.home+"/.profile", "x")
	paths := func(query string) string {
		t.Helper()
		var all []string
		for next := query; ; {
			page := into[api.List[api.File]](f.fetch(next).is(http.StatusOK))
			for _, file := range page.Items {
				all = append(all, file.Path)
			}
			if page.NextCursor == "" {
				return strings.Join(all, " ")
			}
			next = query + "&cursor=" + page.NextCursor
		}
	}
	for query, want := range map[string]string{
		"/files": "a b new\nline", "/files?limit=1": "a b new\nline", "/files?depth=2&limit=1": "a a/one.go a/two.txt b new\nline",
		"/files?hidden=true&limit=2": ".berth .hidden a b new\nline", "/files?path=a": "a/one.go a/two.txt", "/files?path=./a/": "a/one.go a/two.txt",
		"/files?depth=9&pattern=*.go": "a/one.go", "/files?source=home_dir&hidden=true": ".profile", "/files?source=working_dir&path=.berth": ".berth/state",
	} {
		if got := paths(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, code := range map[string]api.Code{
		"/files?source=etc": api.CodeInvalidRequest, "/files?depth=0": api.CodeInvalidRequest, "/files?limit=1001": api.CodeInvalidRequest, "/files?pattern=[": api.CodeInvalidRequest,
		"/files?cursor=x": api.CodeInvalidCursor, "/files?path=b": api.CodeNotADirectory, "/files?path=none": api.CodeFileNotFound, "/files?unknown=1": api.CodeInvalidRequest,
		"/tree?path=b": api.CodeNotADirectory, "/tree?depth=65": api.CodeInvalidRequest, "/files/b?stat=maybe": api.CodeInvalidRequest, "/files/b?max_bytes=0": api.CodeInvalidRequest,
		"/files/b?source=etc": api.CodeInvalidRequest, "/files/b?other=1": api.CodeInvalidRequest, "/files/a": api.CodeIsADirectory, "/files/none?stat=1": api.CodeFileNotFound,
		"/archive?path=b": api.CodeNotADirectory, "/archive?hidden=x": api.CodeInvalidRequest, "/archive?source=x": api.CodeInvalidRequest, "/archive?path=none": api.CodeFileNotFound,
	} {
		f.fetch(query).fails(code)
	}
	tree := into[api.FileTree](f.fetch("/tree?limit=4").is(http.StatusOK))
	if len(tree.Children) != 3 || len(tree.Children[0].Children) != 1 || !tree.Children[0].Truncated || !tree.Truncated || tree.Type != "directory" {
		t.Errorf("tree %+v", tree)
	}
}

func TestFoldersAreMadeAndFilesMoved(t *testing.T) {
	f := newFileSite(t)
	if dir := into[api.File](f.act("/files/x/y", `{"op":"mkdir"}`).is(http.StatusOK)); dir.Path != "x/y" || dir.Type != "directory" {
		t.Errorf("made %+v", dir)
	}
	f.act("/files/x/y", `{"op":"mkdir"}`).is(http.StatusOK)
	f.put("/files/a", "1").is(http.StatusCreated)
	f.put("/files/b", "2").is(http.StatusCreated)
	f.act("/files/a", `{"op":"move","to":"b"}`).fails(api.CodeFileExists)
	if moved := into[api.File](f.act("/files/a", `{"op":"move","to":"x/z/c"}`).is(http.StatusOK)); moved.Path != "x/z/c" {
		t.Errorf("moved %+v", moved)
	}
	f.act("/files/x/z/c", `{"op":"move","to":"b","replace":true}`).is(http.StatusOK)
	if got := f.fetch("/files/b"); string(got.body) != "1" {
		t.Errorf("read %q", got.body)
	}
	// The same request sent again has no second effect.
	again := call{method: http.MethodPost, path: f.box + "/files/b", key: f.site.write, body: `{"op":"move","to":"c"}`, header: map[string]string{idempotencyHeader: "k"}}
	f.do(again).is(http.StatusOK)
	if a := f.do(again).is(http.StatusOK); a.header.Get(replayedHeader) != "true" {
		t.Errorf("again: %v", a.header)
	}
	for body, code := range map[string]api.Code{
		`{"op":"copy"}`: api.CodeInvalidRequest, `{"op":"move"}`: api.CodeInvalidRequest, `{"op":"mkdir","to":"x"}`: api.CodeInvalidRequest, `{}`: api.CodeInvalidRequest,
		"": api.CodeInvalidRequest, `{"op":"move","to":"d"}`: api.CodeFileNotFound, `{"op":"move","to":"/etc"}`: api.CodePathOutside, `{"op":"move","to":"./"}`: api.CodeInvalidRequest,
	} {
		f.act("/files/none", body).fails(code)
	}
	f.act("/files/c", `{"op":"mkdir"}`).fails(api.CodeNotADirectory)
	f.do(call{method: http.MethodPost, path: f.box + "/files/c?x=1", key: f.site.write, body: `{"op":"mkdir"}`}).fails(api.CodeInvalidRequest)
	f.remove(f.box + "/files/c?recursive=perhaps").fails(api.CodeInvalidRequest)
	f.remove(f.box + "/files/c?x=1").fails(api.CodeInvalidRequest)
}

func TestBadUploads(t *testing.T) {
	f := newFileSite(t)
	f.put("/files/f?mode=8", "x").fails(api.CodeInvalidRequest)
	f.put("/files/f?mode=4755", "x").fails(api.CodeInvalidRequest)
	f.put("/files/f?x=1", "x").fails(api.CodeInvalidRequest)
	f.put("/files/f", "x", "Content-Encoding", "gzip").fails(api.CodeUnsupportedMedia)
	f.put("/files/f", "x", "If-Match", `"x"`).fails(api.CodeInvalidRequest)
	f.put("/files/f", "x", "If-None-Match", `"x"`).fails(api.CodeInvalidRequest)
	f.put("/archive", "x", "Content-Type", "text/plain").fails(api.CodeUnsupportedMedia)
	f.put("/archive?x=1", "x", "Content-Type", tarType).fails(api.CodeInvalidRequest)
	f.put("/archive", "\x1f\x8b garbage", "Content-Type", tarType).fails(api.CodeInvalidArchive)
	f.do(call{method: http.MethodPut, path: f.box + "/files/f", key: f.site.read, body: "x"}).fails(api.CodeForbidden)
	f.do(call{method: http.MethodPut, path: f.box + "/files/f", body: "x"}).fails(api.CodeUnauthenticated)
	if entries, err := os.ReadDir(f.work); err != nil || len(entries) != 0 {
		t.Errorf("refused uploads left %v, %v", entries, err)
	}
	// A length beyond the limit is refused before anything is sent.
	status, body := f.announce(maxUpload + 1)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(body, string(api.CodeBodyTooLarge)) {
		t.Errorf("a body too large: %d %s", status, body)
	}
	// A sender that goes away leaves nothing.
	f.sendHalf()
	testkit.Eventually(t, 3*patience, func() error {
		entries, err := os.ReadDir(f.work)
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("left %v", entries)
		}
		return cmp.Or(err, f.logged(http.MethodPut, http.StatusBadRequest, "/files/{path...}", 4))
	})
}

// A sender that stops sending is not waited for, and leaves nothing.
func TestStalledUploadIsGivenUp(t *testing.T) {
	f := newFileSite(t, func(o *Options) { o.TransferTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	for _, path := range []string{"/files/stalled", "/archive"} {
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: 1000\r\n\r\nhalf", f.box+path, f.admin)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		answer{t, res.StatusCode, res.Header, body}.fails(api.CodeBodyTimeout)
		_ = conn.Close()
		if conn, err = net.Dial("tcp", f.server.Listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.Close()
	if entries, err := os.ReadDir(f.work); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// announce says how much it will send, sends nothing and reads the answer.
func (f *fileSite) announce(length int64) (int, string) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	fmt.Fprintf(conn, "PUT %s/files/f HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n", f.box, f.admin, length)
	answer, _ := io.ReadAll(conn)
	status := 0
	_, _ = fmt.Sscanf(string(answer), "HTTP/1.1 %d", &status)
	return status, string(answer)
}

func (f *fileSite) sendHalf() {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT %s/files/half HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: 1000\r\n\r\nhalf", f.box, f.admin)
	testkit.Eventually(f.t, 3*patience, func() error {
		if entries, err := os.ReadDir(f.work); err != nil || len(entries) == 0 {
			return fmt.Errorf("not begun: %v", err)
		}
		return nil
	})
	_ = conn.Close()
}

// logged is nil once the log has so many such requests.
func (f *fileSite) logged(method string, status int, route string, least int) error {
	n := 0
	for _, line := range f.log.lines(f.t, "request") {
		if line["method"] == method && line["status"] == float64(status) && strings.HasSuffix(fmt.Sprint(line["route"]), route) {
			n++
		}
	}
	if n < least {
		return fmt.Errorf("%d requests of %s %s ended with %d, want %d", n, method, route, status, least)
	}
	return nil
}

func TestFolderGoesOutAndInAsATar(t *testing.T) {
	f := newFileSite(t)
	f.place(f.work+"/src/main.go", "package main")
	f.place(f.work+"/src/.env", "x")
	f.place(f.work+"/.berth/state", "x")
	if err := errors.Join(unix.Mkfifo(f.work+"/src/pipe", 0o666), os.Symlink("main.go", f.work+"/src/link")); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, f.server.URL+f.box+"/archive?path=src", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", f.site.read)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Trailer.Get(api.HeaderSkipped) != "1" ||
		res.Header.Get("Content-Type") != tarType || res.Header.Get("Content-Disposition") != "attachment; filename=src.tar" {
		t.Fatalf("%v, %d, %v, trailer %v", err, res.StatusCode, res.Header, res.Trailer)
	}
	head := f.do(call{method: http.MethodHead, path: f.box + "/archive", key: f.site.read}).is(http.StatusOK)
	if head.header.Get("Content-Disposition") != "attachment; filename=box.tar" {
		t.Errorf("HEAD %v", head.header)
	}
	got := into[api.Unpacked](f.put("/archive?path=copy&source=home_dir", string(data), "Content-Type", tarType).is(http.StatusOK))
	if got != (api.Unpacked{Files: 2, Links: 1, Bytes: 13}) {
		t.Errorf("unpacked %+v", got)
	}
	if a := f.fetch("/files/copy/link?source=home_dir").is(http.StatusOK); string(a.body) != "package main" {
		t.Errorf("read %q", a.body)
	}
	var evil bytes.Buffer
	w := tar.NewWriter(&evil)
	_ = w.WriteHeader(&tar.Header{Name: "../evil", Typeflag: tar.TypeReg})
	_ = w.Close()
	if p := f.put("/archive", evil.String(), "Content-Type", tarType).fails(api.CodePathOutside); !strings.Contains(p.Detail, "../evil") {
		t.Errorf("detail %q does not name the entry", p.Detail)
	}
}

// A late error is shown by cutting the connection.
func TestArchiveThatFailsMidwayIsCut(t *testing.T) {
	f := newFileSite(t)
	f.place(f.work+"/a", strings.Repeat("x", 1<<20))
	f.place(f.work+"/b", "")
	if err := os.Truncate(f.work+"/b", maxArchive+1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.send(t.Context(), call{path: f.box + "/archive", key: f.site.read}); err == nil {
		t.Error("a cut archive looks whole")
	}
	if err := os.Remove(f.work + "/a"); err != nil {
		t.Fatal(err)
	}
	f.fetch("/archive").fails(api.CodeTooLarge)
}

func TestFilesOfWhatIsNotThere(t *testing.T) {
	f := newFileSite(t)
	other := f.newKey("other", api.ScopeAdmin)
	for _, path := range []string{"/files", "/tree", "/files/x", "/archive"} {
		f.get(sandboxesPath + "/missing" + path).fails(api.CodeNotFound)
		f.get(sandboxesPath + "/Not_A_Name" + path).fails(api.CodeInvalidID)
		f.do(call{path: f.box + path, key: other}).fails(api.CodeNotFound)
		f.do(call{path: "/api/v1/sandbox/box" + path, key: f.site.read})
	}
	f.roots = nil
	f.fetch("/files").fails(api.CodeNotRunning)
	f.put("/files/x", "x").fails(api.CodeNotRunning)
	f.roots = map[string]string{files.WorkingDir: "/nowhere"}
	f.fetch("/files").fails(api.CodeDriverUnreachable)
	bare := newSite(t)
	bare.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	bare.get(f.box + "/files/x").fails(api.CodeUnsupported)
}

// The client and the server mean the same.
func TestClientMovesFilesBothWays(t *testing.T) {
	f := newFileSite(t)
	c, err := berth.New(f.server.URL, f.admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx, s := t.Context(), c.Sandboxes
	content := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	file, made, err := s.WriteFile(ctx, "box", "", "dir/large file", bytes.NewReader(content), berth.WriteOptions{Mode: 0o600})
	if err != nil || !made || file.Size != int64(len(content)) || file.Mode != "0600" {
		t.Fatalf("wrote %+v, new %v, %v", file, made, err)
	}
	if _, _, err := s.WriteFile(ctx, "box", "", "dir/large file", io.MultiReader(bytes.NewReader(content)), berth.WriteOptions{New: true}); !hasCode(err, api.CodePrecondition) {
		t.Errorf("written twice: %v", err)
	}
	d, err := s.ReadFile(ctx, "box", "", "dir/large file", berth.ReadOptions{Offset: 16, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if data, err := io.ReadAll(d); err != nil || !bytes.Equal(data, content[16:1<<20]) || !d.Truncated || d.ETag != file.ETag || d.Size != file.Size {
		t.Errorf("read %d bytes, %v, %+v", len(data), err, d)
	}
	archive, err := s.DownloadArchive(ctx, "box", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	got, err := s.UploadArchive(ctx, "box", files.HomeDir, "copy", archive)
	if err != nil || got.Files != 1 || got.Folders != 1 || archive.Skipped() != 0 {
		t.Fatalf("copied %+v, %v", got, err)
	}
	if _, err := s.MoveFile(ctx, "box", files.HomeDir, "copy/dir/large file", "moved", false); err != nil {
		t.Error(err)
	}
	var names []string
	for file, err := range s.ListFiles(ctx, "box", berth.FileFilter{Source: files.HomeDir, Depth: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, file.Path)
	}
	if got := strings.Join(names, " "); got != "copy copy/dir moved" {
		t.Errorf("listed %s", got)
	}
	if err := s.DeleteFile(ctx, "box", files.HomeDir, "copy", false); !hasCode(err, api.CodeNotEmpty) {
		t.Errorf("deleted a full folder: %v", err)
	}
	if err := s.DeleteFile(ctx, "box", files.HomeDir, "copy", true); err != nil {
		t.Error(err)
	}
	if tree, err := s.Tree(ctx, "box", berth.FileFilter{Source: files.HomeDir}, 0); err != nil || len(tree.Children) != 1 {
		t.Errorf("tree %+v, %v", tree, err)
	}
}

func hasCode(err error, code api.Code) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == code
}
