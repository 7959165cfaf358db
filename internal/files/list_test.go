package files_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"golang.org/x/sys/unix"
)

// pages reads a list to its end and returns its paths.
func (w *world) pages(o files.ListOptions) (paths []string) {
	w.t.Helper()
	for {
		page, err := files.List(w.t.Context(), w, o)
		if err != nil {
			w.t.Fatal(err)
		}
		if o.Limit > 0 && len(page.Items) > o.Limit {
			w.t.Fatalf("%d items, asked for %d", len(page.Items), o.Limit)
		}
		for _, item := range page.Items {
			paths = append(paths, item.Path)
		}
		if page.Next == "" {
			return paths
		}
		o.Cursor = page.Next
	}
}

func (w *world) project() {
	for _, path := range []string{
		"README.md", "src/main.go", "src/util/a.go", "src/util/b.txt", "src.txt", "src-old/x", ".env", ".git/config", ".berth/claude/state", "src/.cache/y", "z",
	} {
		w.put(path, path)
	}
	w.link("src", "zlink")
}

func TestListShowsWhatWasAskedFor(t *testing.T) {
	testkit.Proves(t, "V4")
	w := newWorld(t)
	w.project()
	for _, c := range []struct {
		o    files.ListOptions
		want string
	}{
		{files.ListOptions{}, "README.md src src-old src.txt z zlink"},
		{files.ListOptions{Depth: 2}, "README.md src src/main.go src/util src-old src-old/x src.txt z zlink"},
		{files.ListOptions{Depth: 9}, "README.md src src/main.go src/util src/util/a.go src/util/b.txt src-old src-old/x src.txt z zlink"},
		{files.ListOptions{Hidden: true}, ".berth .env .git README.md src src-old src.txt z zlink"},
		{files.ListOptions{Path: "src", Depth: 9}, "src/main.go src/util src/util/a.go src/util/b.txt"},
		{files.ListOptions{Path: "src", Depth: 9, Hidden: true}, "src/.cache src/.cache/y src/main.go src/util src/util/a.go src/util/b.txt"},
		{files.ListOptions{Path: ".berth", Depth: 9}, ".berth/claude .berth/claude/state"},
		{files.ListOptions{Path: "zlink"}, "zlink/main.go zlink/util"},
		{files.ListOptions{Depth: 9, Pattern: "*.go"}, "src/main.go src/util/a.go"},
		{files.ListOptions{Depth: 9, Pattern: "src/*.go"}, "src/main.go"},
		{files.ListOptions{Path: "src", Depth: 9, Pattern: "util/*"}, "src/util/a.go src/util/b.txt"},
		{files.ListOptions{Depth: 9, Pattern: "nothing"}, ""},
	} {
		for _, limit := range []int{0, 1, 2, 3, 100} {
			c.o.Limit = limit
			if got := strings.Join(w.pages(c.o), " "); got != c.want {
				t.Errorf("%+v: %s\nwant %s", c.o, got, c.want)
			}
		}
	}
}

func TestListRefusesWhatItCannotList(t *testing.T) {
	w := newWorld(t)
	w.project()
	list := func(o files.ListOptions) error {
		_, err := files.List(t.Context(), w, o)
		return err
	}
	page, err := files.List(t.Context(), w, files.ListOptions{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatal(err)
	}
	isCode(t, "a file", list(files.ListOptions{Path: "z"}), api.CodeNotADirectory)
	isCode(t, "nothing", list(files.ListOptions{Path: "none"}), api.CodeFileNotFound)
	isCode(t, "a bad pattern", list(files.ListOptions{Pattern: "[a"}), api.CodeInvalidRequest)
	for _, bad := range []string{"x", "!", page.Next[1:], page.Next + "AA", base64.RawURLEncoding.EncodeToString([]byte("0000src")), forged("../outside"), forged("a//b"), forged("a\x00")} {
		isCode(t, "the cursor "+bad, list(files.ListOptions{Cursor: bad}), api.CodeInvalidCursor)
	}
	isCode(t, "another list's cursor", list(files.ListOptions{Path: "src", Cursor: page.Next}), api.CodeInvalidCursor)
}

// forged is a cursor whose sum is right.
func forged(path string) string {
	sum := crc("\x00" + path)
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, path...))
}

// What changes between two pages costs neither a gap nor a repeat of what stays.
func TestPagesSurviveChanges(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.put(fmt.Sprintf("d%02d/f", i), "x")
	}
	o := files.ListOptions{Depth: 2, Limit: 7}
	page, err := files.List(t.Context(), w, o)
	if err != nil || page.Items[6].Path != "d03" {
		t.Fatalf("%+v, %v", page.Items, err)
	}
	if err := os.RemoveAll(w.at("d03")); err != nil { // where the cursor stands
		t.Fatal(err)
	}
	w.put("d00/late", "x") // behind it
	w.put("d04/early", "x")
	o.Cursor = page.Next
	rest := w.pages(o)
	if rest[0] != "d04" || rest[1] != "d04/early" || slices.Contains(rest, "d00/late") || len(rest) != 2*16+1 {
		t.Errorf("the rest is %v", rest)
	}
}

// B4 13: names are text.
func TestHostileNamesComeBackAsText(t *testing.T) {
	testkit.Proves(t, "V4")
	w := newWorld(t)
	names := []string{"$(id)", "-rf", "; id", "\"quo'ted\"", "new\nline", "\x1b[2J", "\xff\xfe", "..x", "a\\b", "|cat", "漢"}
	slices.Sort(names)
	for _, name := range names {
		w.put(name, "content of "+name)
	}
	if got := w.pages(files.ListOptions{Limit: 2, Hidden: true}); !slices.Equal(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	for _, name := range names {
		w.want(name, "content of "+name)
	}
}

// Fewer entries than asked for mean the end, and nothing else does.
func TestReadDirInPieces(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 257 {
		name := fmt.Sprintf("%x", i*7919)
		w.put(name, "")
		want = append(want, name)
	}
	slices.Sort(want)
	for _, limit := range []int{1, 10, 256, 257, 258} {
		var got []string
		for after := ""; ; {
			entries, err := w.ReadDir(t.Context(), "", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				got = append(got, e.Path)
				after = e.Path
			}
			if len(entries) < limit {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: %d entries, want %d", limit, len(got), len(want))
		}
	}
	if none, err := w.ReadDir(t.Context(), "", "", 0); err != nil || len(none) != 0 {
		t.Errorf("none asked for: %v, %v", none, err)
	}
}

// B4 8: as many files as somebody likes to make take the memory of one page.
func TestCrowdedFolderTakesBoundedMemory(t *testing.T) {
	w := newWorld(t)
	n := testkit.Size(t, "files.entries")
	w.crowd("crowd", n)
	ctx := t.Context()
	var peak gauge
	peak.begin()
	page, err := files.List(ctx, w, files.ListOptions{Path: "crowd", Limit: 100})
	if err != nil || len(page.Items) != 100 || page.Items[0].Path != "crowd/0000000" || page.Next == "" {
		t.Fatalf("%d items, next %q, %v", len(page.Items), page.Next, err)
	}
	if page, err = files.List(ctx, w, files.ListOptions{Depth: 2, Pattern: "none"}); err != nil || len(page.Items) != 0 || page.Next == "" {
		t.Errorf("a search for nothing: %d items, next %q, %v: want it to pause", len(page.Items), page.Next, err)
	}
	root, cut, err := files.Tree(ctx, w, files.TreeOptions{Limit: 50})
	if err != nil || !cut || len(root.Children) != 1 || len(root.Children[0].Children) != 49 || !root.Children[0].Truncated {
		t.Errorf("tree %+v, cut %v, %v", root, cut, err)
	}
	packed, err := files.Pack(ctx, w, &peak, files.PackOptions{})
	if err != nil || packed.Entries != n+1 {
		t.Errorf("packed %+v, %v", packed, err)
	}
	if peak.most > 64<<20 {
		t.Errorf("took %d bytes", peak.most)
	}
	if err := w.Remove(ctx, "crowd", true); err != nil {
		t.Error(err)
	}
}

// crowd makes a folder with n empty files.
func (w *world) crowd(name string, n int) {
	w.t.Helper()
	if err := os.Mkdir(w.at(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	dir, err := os.Open(w.at(name))
	if err != nil {
		w.t.Fatal(err)
	}
	defer dir.Close()
	for i := range n {
		if err := unix.Mknodat(int(dir.Fd()), fmt.Sprintf("%07d", i), unix.S_IFREG|0o644, 0); err != nil {
			w.t.Fatal(err)
		}
	}
}

// gauge watches the heap while it is written to.
type gauge struct {
	start, most uint64
	bytes       int
}

func (g *gauge) begin() { g.start = heap() }

func (g *gauge) Write(p []byte) (int, error) {
	if before := g.bytes; before>>22 != (before+len(p))>>22 {
		g.most = max(g.most, max(heap(), g.start)-g.start)
	}
	g.bytes += len(p)
	return len(p), nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTreeNests(t *testing.T) {
	w := newWorld(t)
	w.project()
	shape := func(o files.TreeOptions) string {
		root, cut, err := files.Tree(t.Context(), w, o)
		if err != nil {
			t.Fatal(err)
		}
		text := draw(root)
		if cut {
			text += " cut"
		}
		return text
	}
	for want, o := range map[string]files.TreeOptions{
		"{README.md src{main.go util{a.go b.txt}} src-old{x} src.txt z zlink}":     {},
		"{README.md src src-old src.txt z zlink}":                                  {Depth: 1},
		"{README.md src{main.go util} src-old{x} src.txt z zlink}":                 {Depth: 2},
		"src{main.go util{a.go b.txt}}":                                            {Path: "src"},
		"src{.cache{y} main.go util{a.go b.txt}}":                                  {Path: "src", Hidden: true},
		"{README.md src{…} src-old{…}…} cut":                                       {Limit: 3},
		"{README.md src{main.go…} src-old{…} src.txt z zlink} cut":                 {Limit: 7},
		"zlink{main.go util{a.go b.txt}}":                                          {Path: "zlink"},
		"{README.md src{main.go util{a.go…}} src-old{x} src.txt z zlink} cut":      {Limit: 10},
		"{README.md src{main.go util{a.go b.txt}} src-old{x} src.txt z zlink}\x00": {Limit: 11},
	} {
		if got := shape(o); got != strings.Trim(want, "\x00") {
			t.Errorf("%+v: %s\nwant %s", o, got, want)
		}
	}
	_, _, err := files.Tree(t.Context(), w, files.TreeOptions{Path: "z"})
	isCode(t, "tree of a file", err, api.CodeNotADirectory)
	_, _, err = files.Tree(t.Context(), w, files.TreeOptions{Path: "none"})
	isCode(t, "tree of nothing", err, api.CodeFileNotFound)
}

func draw(n *files.Node) string {
	name := n.Path[strings.LastIndex(n.Path, "/")+1:]
	if n.Children == nil {
		return name
	}
	var all []string
	for _, c := range n.Children {
		all = append(all, draw(c))
	}
	text := strings.Join(all, " ")
	if n.Truncated {
		text += "…"
	}
	return name + "{" + text + "}"
}

// A folder that cannot be looked into is shown, and the rest goes on.
func TestClosedFoldersDoNotEndAList(t *testing.T) {
	w := newWorldAs(t, somebody)
	if err := w.write("open/file", "x"); err != nil {
		t.Fatal(err)
	}
	w.put("closed/file", "x") // root's
	if err := os.Chmod(w.at("closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 100} {
		if got := w.pages(files.ListOptions{Depth: 3, Limit: limit}); strings.Join(got, " ") != "closed open open/file" {
			t.Errorf("listed %v", got)
		}
	}
	root, _, err := files.Tree(t.Context(), w, files.TreeOptions{})
	if err != nil || draw(root) != "{closed{} open{file}}" {
		t.Errorf("tree %s, %v", draw(root), err)
	}
}
