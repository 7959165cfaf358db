package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

func crc(s string) uint32 { return crc32.ChecksumIEEE([]byte(s)) }

// archive makes a tar of headers; a file's content is its name.
func archive(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = h.Name
			h.Size = int64(len(content))
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func reg(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

func TestArchiveRoundTrip(t *testing.T) {
	w := newWorld(t)
	w.project()
	w.put("src/new\nline", "x")
	w.put("src/.berth/kept", "not at the root")
	w.link("/etc/passwd", "src/out")
	if err := errors.Join(os.Chmod(w.at("src/main.go"), 0o755|os.ModeSetuid), os.Mkdir(w.at("src/empty"), 0o755)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	packed, err := files.Pack(t.Context(), w, &b, files.PackOptions{})
	if err != nil || packed.Skipped != 0 {
		t.Fatalf("packed %+v, %v", packed, err)
	}
	other := newWorld(t)
	other.put("copy/src/main.go", "replaced")
	other.put("copy/src/out", "replaced")
	unpacked, err := files.Unpack(t.Context(), other, &b, files.UnpackOptions{Path: "copy", MaxBytes: 1 << 20})
	if err != nil || unpacked.Bytes != packed.Bytes || unpacked.Files+unpacked.Folders+unpacked.Links != packed.Entries {
		t.Fatalf("unpacked %+v, %v; packed %+v", unpacked, err, packed)
	}
	var want []string
	for _, path := range w.pages(files.ListOptions{Depth: 9, Hidden: true}) {
		if path != ".berth" && !strings.HasPrefix(path, ".berth/") {
			want = append(want, "copy/"+path)
		}
	}
	got := other.pages(files.ListOptions{Path: "copy", Depth: 9, Hidden: true})
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("copied %q\nwant %q", got, want)
	}
	for _, path := range want {
		name := strings.TrimPrefix(path, "copy/")
		a, errA := w.Stat(t.Context(), name)
		b, errB := other.Stat(t.Context(), path)
		if errA != nil || errB != nil || a.Mode.Perm() != b.Mode.Perm() || b.Mode&os.ModeSetuid != 0 || a.Target != b.Target {
			t.Errorf("%s: %v, %v; copied %v, %v", name, a.Mode, errA, b.Mode, errB)
		}
		if a.Mode.IsRegular() && (a.Size != b.Size || !a.ModTime.Truncate(time.Second).Equal(b.ModTime)) {
			t.Errorf("%s: %+v; copied %+v", name, a, b)
		}
	}
	if packed, err := files.Pack(t.Context(), w, new(counter), files.PackOptions{Hidden: true}); err != nil || packed.Entries != len(want)+3 {
		t.Errorf("with what is reserved: %+v, %v", packed, err)
	}
	if packed, err := files.Pack(t.Context(), w, new(counter), files.PackOptions{Path: "src/util"}); err != nil || packed.Entries != 2 {
		t.Errorf("of a folder: %+v, %v", packed, err)
	}
}

// B4 7: what is never opened is left out and named.
func TestPackLeavesOutSpecialFiles(t *testing.T) {
	w := newWorld(t)
	w.specials()
	w.put("plain", "x")
	w.put(leftover, "half")
	w.link(w.outside+"/secret", "link")
	var b bytes.Buffer
	packed, err := files.Pack(t.Context(), w, &b, files.PackOptions{})
	if err != nil || packed.Skipped != 4 || packed.Entries != 2 || bytes.Contains(b.Bytes(), []byte(canary)) {
		t.Fatalf("packed %+v, %v", packed, err)
	}
	var names []string
	comment := ""
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			comment = h.PAXRecords["comment"]
			continue
		}
		names = append(names, h.Name+">"+h.Linkname)
	}
	if got := strings.Join(names, " "); got != "link>"+w.outside+"/secret plain>" {
		t.Errorf("packed %s", got)
	}
	for _, name := range []string{"4 left out", "pipe", "socket", "device", "hard (special_file)"} {
		if !strings.Contains(comment, name) {
			t.Errorf("comment %q does not name %s", comment, name)
		}
	}
}

func TestPackEndsWhereItMust(t *testing.T) {
	w := newWorld(t)
	w.put("a", "x")
	if err := os.Truncate(w.at("a"), 1<<40); err != nil { // takes no space
		t.Fatal(err)
	}
	_, err := files.Pack(t.Context(), w, io.Discard, files.PackOptions{MaxBytes: 1 << 30})
	isCode(t, "a file of 1 TiB", err, api.CodeTooLarge)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = files.Pack(ctx, w, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }), files.PackOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err = files.Pack(t.Context(), w, writerFunc(func([]byte) (int, error) { return 0, errSender }), files.PackOptions{})
	if !errors.Is(err, errSender) {
		t.Errorf("to a reader that is gone: %v", err)
	}
	_, err = files.Pack(t.Context(), w, io.Discard, files.PackOptions{Path: "a"})
	isCode(t, "pack a file", err, api.CodeNotADirectory)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A file that shrinks while it is packed must not break what follows it.
func TestShrinkingFileIsFilledUp(t *testing.T) {
	w := newWorld(t)
	w.put("a", strings.Repeat("x", 1<<20))
	w.put("b", "after it")
	var b bytes.Buffer
	shrunk := false
	packed, err := files.Pack(t.Context(), w, writerFunc(func(p []byte) (int, error) {
		if !shrunk {
			shrunk = true
			if err := os.Truncate(w.at("a"), 10); err != nil {
				t.Error(err)
			}
		}
		return b.Write(p)
	}), files.PackOptions{})
	if err != nil || packed.Skipped != 1 || packed.Entries != 2 {
		t.Fatalf("packed %+v, %v", packed, err)
	}
	other := newWorld(t)
	if _, err := files.Unpack(t.Context(), other, &b, files.UnpackOptions{}); err != nil {
		t.Fatal(err)
	}
	other.want("b", "after it")
}

// B4 14: each is refused by its name, and nothing gets out.
func TestUnpackRefusesHostileEntries(t *testing.T) {
	testkit.Proves(t, "V4")
	sym := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	hard := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
	}
	for _, c := range []struct {
		name    string
		headers []tar.Header
		code    api.Code
		names   string
	}{
		{"up", []tar.Header{reg("../evil")}, api.CodePathOutside, "../evil"},
		{"up inside", []tar.Header{reg("a/../../evil")}, api.CodePathOutside, "a/../../evil"},
		{"absolute", []tar.Header{reg("/evil")}, api.CodePathOutside, "/evil"},
		{"through a link out", []tar.Header{sym("l", "../outside"), reg("l/evil")}, api.CodeInvalidArchive, "l/evil"},
		{"through a link in", []tar.Header{{Typeflag: tar.TypeDir, Name: "d"}, sym("l", "d"), reg("l/x/evil")}, api.CodeInvalidArchive, "l/x/evil"},
		{"through a link that was there", []tar.Header{reg("there/evil")}, api.CodeInvalidArchive, "there/evil"},
		{"a folder through a link", []tar.Header{{Typeflag: tar.TypeDir, Name: "there/evil"}}, api.CodeInvalidArchive, "there/evil"},
		{"hard link out", []tar.Header{hard("evil", "../outside/secret")}, api.CodePathOutside, "evil"},
		{"hard link to an absolute path", []tar.Header{hard("evil", "/etc/passwd")}, api.CodePathOutside, "evil"},
		{"hard link to nothing", []tar.Header{hard("evil", "none")}, api.CodeInvalidArchive, "evil"},
		{"hard link to a link", []tar.Header{sym("l", "../outside/secret"), hard("evil", "l")}, api.CodeInvalidArchive, "evil"},
		{"hard link through a link", []tar.Header{hard("evil", "there/secret")}, api.CodeInvalidArchive, "evil"},
		{"character device", []tar.Header{{Typeflag: tar.TypeChar, Name: "evil", Devmajor: 1, Devminor: 5}}, api.CodeInvalidArchive, "evil"},
		{"block device", []tar.Header{{Typeflag: tar.TypeBlock, Name: "evil"}}, api.CodeInvalidArchive, "evil"},
		{"pipe", []tar.Header{{Typeflag: tar.TypeFifo, Name: "evil"}}, api.CodeInvalidArchive, "evil"},
		{"file below a file", []tar.Header{reg("f"), reg("f/evil")}, api.CodeNotADirectory, "f/evil"},
		{"folder in a file's place", []tar.Header{reg("f"), {Typeflag: tar.TypeDir, Name: "f"}}, api.CodeNotADirectory, "f"},
		{"link in a full folder's place", []tar.Header{reg("d/f"), sym("d", "x")}, api.CodeNotEmpty, "d"},
		{"too many", []tar.Header{reg("1"), reg("2"), reg("3"), reg("4")}, api.CodeTooLarge, "3 entries"},
		{"too large", []tar.Header{reg(strings.Repeat("x", 60)), reg(strings.Repeat("y", 60))}, api.CodeTooLarge, "yyy"},
		{"long name", []tar.Header{reg(strings.Repeat("x", 300))}, api.CodeTooLarge, "xxx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.link("../outside", "there")
			_, err := files.Unpack(t.Context(), w, archive(t, c.headers...), files.UnpackOptions{MaxBytes: 100, MaxEntries: 3})
			isCode(t, "unpack", err, c.code)
			if !strings.Contains(fmt.Sprint(err), c.names) {
				t.Errorf("%v does not name %s", err, c.names)
			}
			w.untouched()
			if _, err := os.Lstat(w.at("evil")); err == nil {
				t.Error("the entry was made")
			}
		})
	}
}

// A file that is mostly holes counts with its whole size.
func TestUnpackCountsHoles(t *testing.T) {
	w := newWorld(t)
	var b bytes.Buffer
	// By hand: the package writes none. One piece of data at the end of 4 GiB of nothing.
	const hole = 1 << 32
	h := make([]byte, 512)
	copy(h, "sparse")
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00", 512, 0))
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	copy(h[386:], fmt.Sprintf("%011o\x00%011o\x00", int64(hole), 512))
	copy(h[483:], fmt.Sprintf("%011o\x00", int64(hole+512)))
	for i := 148; i < 156; i++ {
		h[i] = ' '
	}
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	b.Write(h)
	b.Write(make([]byte, 512+1024))
	_, err := files.Unpack(t.Context(), w, &b, files.UnpackOptions{MaxBytes: 1 << 20})
	isCode(t, "unpack holes", err, api.CodeTooLarge)
}

func TestUnpackCopiesHardLinksAndSkipsComments(t *testing.T) {
	w := newWorld(t)
	got, err := files.Unpack(t.Context(), w, archive(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
		tar.Header{Typeflag: tar.TypeDir, Name: "./"},
		reg("./a/one"), tar.Header{Typeflag: tar.TypeLink, Name: "a/two", Linkname: "./a/one"},
	), files.UnpackOptions{})
	if err != nil || got.Files != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	w.want("a/two", "./a/one")
	if err := w.write("a/two", "2"); err != nil {
		t.Error(err)
	}
	w.want("a/one", "./a/one")
}

func TestBrokenArchivesAreTold(t *testing.T) {
	w := newWorld(t)
	whole := archive(t, reg("file")).Bytes()
	for what, data := range map[string]string{
		"gzip": "\x1f\x8b\x08\x00", "zip": "PK\x03\x04....", "garbage": strings.Repeat("garbage ", 200),
		"broken or breaks off": string(whole[:512+2]),
	} {
		_, err := files.Unpack(t.Context(), w, strings.NewReader(data), files.UnpackOptions{})
		isCode(t, what, err, api.CodeInvalidArchive)
		if what != "garbage" && !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, sent := range []int{0, 100, 512 + 2} {
		_, err := files.Unpack(t.Context(), w, failing{bytes.NewReader(whole[:sent]), errSender}, files.UnpackOptions{})
		if !errors.Is(err, errSender) || fault.CodeOf(err) != api.CodeInternal {
			t.Errorf("sender gone after %d bytes: %v", sent, err)
		}
	}
	if got, err := files.Unpack(t.Context(), w, strings.NewReader(""), files.UnpackOptions{}); err != nil || got.Files != 0 {
		t.Errorf("nothing: %+v, %v", got, err)
	}
	w.put("f", "x")
	_, err := files.Unpack(t.Context(), w, bytes.NewReader(whole), files.UnpackOptions{Path: "f"})
	isCode(t, "unpack into a file", err, api.CodeNotADirectory)
	if w.names("") != "f" {
		t.Errorf("left %s", w.names(""))
	}
}
