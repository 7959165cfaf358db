package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

const box = "/api/v1/sandboxes/box"

// seen is what a server was asked, in words.
func seen(r *http.Request) string {
	return r.Method + " " + strings.TrimPrefix(r.URL.EscapedPath(), box) + "?" + r.URL.RawQuery
}

func TestFileCallsAskForWhatTheyMean(t *testing.T) {
	var asked, body string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		asked, body = seen(r), string(data)
		switch {
		case strings.HasSuffix(r.URL.Path, "/files"):
			answer(w, http.StatusOK, api.List[api.File]{Items: []api.File{{Path: "a"}}})
		case strings.HasSuffix(r.URL.Path, "/tree"):
			answer(w, http.StatusOK, api.FileTree{Truncated: true})
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			answer(w, http.StatusOK, api.File{Path: "a"})
		}
	})
	ctx, s := t.Context(), c.Sandboxes
	for _, step := range []struct {
		name       string
		do         func() error
		want, sent string
	}{
		{"list", func() error {
			for file, err := range s.ListFiles(ctx, "box", client.FileFilter{Source: "home_dir", Path: "a/b", Pattern: "*.go", Depth: 3, Hidden: true}) {
				if err != nil || file.Path != "a" {
					return errors.Join(err, errors.New(file.Path))
				}
			}
			return nil
		}, "GET /files?depth=3&hidden=true&limit=200&path=a%2Fb&pattern=%2A.go&source=home_dir", ""},
		{"tree", func() error {
			tree, err := s.Tree(ctx, "box", client.FileFilter{Depth: 2}, 7)
			if !tree.Truncated {
				t.Error("the tree lost a field")
			}
			return err
		}, "GET /tree?depth=2&limit=7", ""},
		{"stat", func() error { _, err := s.StatFile(ctx, "box", "", "a b/ü"); return err }, "GET /files/a%20b/%C3%BC?stat=true", ""},
		{"mkdir", func() error { _, err := s.Mkdir(ctx, "box", "home_dir", "./x/"); return err }, "POST /files/x?source=home_dir", `{"op":"mkdir"}`},
		{"move", func() error { _, err := s.MoveFile(ctx, "box", "", "x", "y/z", true); return err }, "POST /files/x?", `{"op":"move","to":"y/z","replace":true}`},
		{"delete", func() error { return s.DeleteFile(ctx, "box", "", "x", true) }, "DELETE /files/x?recursive=true", ""},
	} {
		if err := step.do(); err != nil || asked != step.want || body != step.sent {
			t.Errorf("%s: %v; asked %s with %s, want %s with %s", step.name, err, asked, body, step.want, step.sent)
		}
	}
}

// A path that would not arrive as it is never leaves.
func TestPathsThatLeadUpAreNotSent(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked %s", seen(r)) })
	ctx, s := t.Context(), c.Sandboxes
	for _, name := range []string{"", "..", "../x", "a/../b", "/etc/passwd", "a//b", "."} {
		_, stat := s.StatFile(ctx, "box", "", name)
		_, read := s.ReadFile(ctx, "box", "", name, client.ReadOptions{})
		_, _, write := s.WriteFile(ctx, "box", "", name, strings.NewReader("x"), client.WriteOptions{})
		_, mkdir := s.Mkdir(ctx, "box", "", name)
		for _, err := range []error{stat, read, write, mkdir, s.DeleteFile(ctx, "box", "", name, false)} {
			if problemOf(t, err).Code != api.CodePathOutside {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func TestFileIsReadInParts(t *testing.T) {
	var asked, part string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked, part = seen(r), r.Header.Get("Range")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set(api.HeaderFileSize, "10")
		w.Header().Set(api.HeaderTruncated, r.URL.Query().Get("max_bytes"))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
	})
	for _, c2 := range []struct {
		o           client.ReadOptions
		part, wants string
	}{
		{client.ReadOptions{}, "", "0123456789"},
		{client.ReadOptions{Offset: 7}, "bytes=7-", "789"},
		{client.ReadOptions{Length: 2}, "bytes=0-1", "01"},
		{client.ReadOptions{Offset: 3, Length: 2, MaxBytes: 5}, "bytes=3-4", "34"},
	} {
		d, err := c.Sandboxes.ReadFile(t.Context(), "box", "", "f", c2.o)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(d)
		if err != nil || string(data) != c2.wants || part != c2.part || d.Size != 10 || d.ETag != `"1"` {
			t.Errorf("%+v: %q, %v, %+v, asked %s with %q", c2.o, data, err, d, asked, part)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := c.Sandboxes.ReadFile(t.Context(), "box", "", "f", client.ReadOptions{Offset: 100})
	if err == nil {
		t.Error("a range beyond the end was read")
	}
}

// Whoever answers something else is not taken for a file.
func TestStrangeFileIsRefused(t *testing.T) {
	whole := false
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if whole {
			w.Header().Set(api.HeaderFileSize, "4")
		}
		_, _ = io.WriteString(w, "page")
	})
	_, err := c.Sandboxes.ReadFile(t.Context(), "box", "", "f", client.ReadOptions{})
	if problemOf(t, err).Code != api.CodeServerUnreachable {
		t.Errorf("%v", err)
	}
	whole = true
	_, err = c.Sandboxes.ReadFile(t.Context(), "box", "", "f", client.ReadOptions{Offset: 2})
	if problemOf(t, err).Code != api.CodeServerUnreachable {
		t.Errorf("the whole file for a part of it: %v", err)
	}
}

func TestCutDownloadIsNotWhole(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-tar")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	d, err := c.Sandboxes.DownloadArchive(t.Context(), "box", "", "src", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data, err := io.ReadAll(d)
	if string(data) != "half" || problemOf(t, err).Code != api.CodeServerUnreachable || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", data, err)
	}
}

func TestArchiveTellsWhatWasLeftOut(t *testing.T) {
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = seen(r)
		w.Header().Set("Trailer", api.HeaderSkipped)
		_, _ = io.WriteString(w, "tar")
		w.Header().Set(api.HeaderSkipped, "3")
	})
	d, err := c.Sandboxes.DownloadArchive(t.Context(), "box", "home_dir", "a/b", false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if data, err := io.ReadAll(d); err != nil || string(data) != "tar" || d.Skipped() != 3 || d.Size != -1 || asked != "GET /archive?path=a%2Fb&source=home_dir" {
		t.Errorf("%q, %v, %d left out, asked %s", data, err, d.Skipped(), asked)
	}
}

// What can be read again is sent again; what cannot is not.
func TestUploadsAreRepeatedWhereTheyCanBe(t *testing.T) {
	var attempts atomic.Int32
	var got, headers string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if attempts.Add(1)%2 == 1 {
			refuse(w, api.NewProblem(api.CodeBusy, "not now"))
			return
		}
		data, _ := io.ReadAll(r.Body)
		got, headers = string(data), r.Header.Get("If-None-Match")+r.URL.RawQuery
		answer(w, http.StatusCreated, api.File{Path: "f", Size: r.ContentLength})
	})
	content := strings.Repeat("content ", 100_000)
	body := strings.NewReader("skip" + content)
	_, _ = body.Seek(4, io.SeekStart)
	file, made, err := c.Sandboxes.WriteFile(t.Context(), "box", "", "f", body, client.WriteOptions{New: true, Mode: 0o755})
	if err != nil || !made || file.Size != int64(len(content)) || got != content || headers != "*mode=755" || attempts.Load() != 2 {
		t.Errorf("%+v, %v, %v after %d attempts, got %d bytes with %s", file, made, err, attempts.Load(), len(got), headers)
	}
	_, _, err = c.Sandboxes.WriteFile(t.Context(), "box", "", "f", io.MultiReader(strings.NewReader("once")), client.WriteOptions{})
	if problemOf(t, err).Code != api.CodeBusy || attempts.Load() != 3 {
		t.Errorf("a body that is gone: %v after %d attempts", err, attempts.Load())
	}
	attempts.Store(1)
	if _, _, err = c.Sandboxes.WriteFile(t.Context(), "box", "", "f", strings.NewReader(""), client.WriteOptions{}); err != nil || got != "" {
		t.Errorf("nothing to send: %v, got %q", err, got)
	}
}

func TestUploadSaysThatItsOwnBodyFailed(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, http.StatusOK, api.Unpacked{})
	})
	broken := errors.New("the disk is broken")
	_, err := c.Sandboxes.UploadArchive(t.Context(), "box", "", "", io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), failingReader{broken}))
	if !errors.Is(err, broken) || errors.As(err, new(*api.Problem)) {
		t.Errorf("%v, want the body's own error", err)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestArchiveIsUploaded(t *testing.T) {
	var asked, kind string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked, kind = seen(r), r.Header.Get("Content-Type")
		answer(w, http.StatusOK, api.Unpacked{Files: 2})
	})
	got, err := c.Sandboxes.UploadArchive(t.Context(), "box", "home_dir", "a", strings.NewReader("tar"))
	if err != nil || got.Files != 2 || asked != "PUT /archive?path=a&source=home_dir" || kind != "application/x-tar" {
		t.Errorf("%+v, %v, asked %s with %s", got, err, asked, kind)
	}
}

// A caller that gives up is not kept by a body that nobody writes to.
func TestUploadEndsWithItsContext(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Sandboxes.WriteFile(ctx, "box", "", "f", r, client.WriteOptions{})
		done <- err
	}()
	if _, err := w.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the upload goes on")
	}
}

// A delete whose answer was lost finds nothing the second time, and that is what was asked for.
func TestLostAnswerToADeleteIsASuccess(t *testing.T) {
	var attempts atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if attempts.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		refuse(w, api.NewProblem(api.CodeFileNotFound, "gone"))
	})
	if err := c.Sandboxes.DeleteFile(t.Context(), "box", "", "f", false); err != nil {
		t.Error(err)
	}
	if err := c.Sandboxes.DeleteFile(t.Context(), "box", "", "f", false); problemOf(t, err).Code != api.CodeFileNotFound {
		t.Errorf("not there at all: %v", err)
	}
}
