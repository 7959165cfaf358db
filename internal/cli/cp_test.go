package cli

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// seenIn is what a folder holds, in the notation of fill.
func seenIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, at)
		switch {
		case err != nil || at == dir:
		case e.IsDir():
			if inside, _ := os.ReadDir(at); len(inside) == 0 {
				found[name+"/"] = ""
			}
		case e.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(at)
			found[name] = "->" + target
		default:
			data, _ := os.ReadFile(at)
			found[name] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCpPutsThingsWhereTheHelpSays is the table of cp, both ways: the same trees and words on both sides.
func TestCpPutsThingsWhereTheHelpSays(t *testing.T) {
	from := map[string]string{"file": "text", "dir/a": "A", "dir/sub/b": "B", "dir/link": "->sub/b", "dir/empty/": ""}
	dir := func(at string) map[string]string {
		return map[string]string{at + "a": "A", at + "sub/b": "B", at + "link": "->sub/b", at + "empty/": ""}
	}
	for _, c := range []struct {
		name, src, dst string
		there          map[string]string // what was there before
		want           map[string]string // besides
	}{
		{"file to a new name", "file", "new", nil, map[string]string{"new": "text"}},
		{"file into missing folders", "file", "x/y/new", nil, map[string]string{"x/y/new": "text"}},
		{"file into a missing folder", "file", "x/", nil, map[string]string{"x/file": "text"}},
		{"file into a folder", "file", "there", map[string]string{"there/": ""}, map[string]string{"there/file": "text"}},
		{"file over a file", "file", "there", map[string]string{"there": "old"}, map[string]string{"there": "text"}},
		{"folder to a new name", "dir", "new", nil, dir("new/")},
		{"folder with a slash", "dir/", "new", nil, dir("new/")},
		{"folder into a folder", "dir", "there", map[string]string{"there/": ""}, dir("there/dir/")},
		{"folder into a missing folder", "dir", "x/", nil, dir("x/dir/")},
		{"folder's inside", "dir/.", "there", map[string]string{"there/": ""}, dir("there/")},
		{"folder's inside to a new name", "dir/.", "new", nil, dir("new/")},
		{"folder over the same one", "dir", ".", map[string]string{"dir/a": "old", "dir/mine": "kept"}, merged(dir("dir/"), map[string]string{"dir/mine": "kept"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newMachine(t)
			s := newShell(t, f)
			here := t.TempDir()
			check := func(way, at string, out string) {
				t.Helper()
				got := seenIn(t, at)
				if !maps.Equal(got, c.want) {
					t.Errorf("%s: got %q, want %q", way, got, c.want)
				}
				contains(t, way, out, "copied ", " to ")
			}
			source, into := filepath.Join(here, "source"), filepath.Join(here, "into")
			fill(t, source, from)
			fill(t, f.machine.dir, c.there)
			check("in", f.machine.dir, s.ok("cp", source+"/"+c.src, "box:"+c.dst))

			f = newMachine(t)
			s = newShell(t, f)
			fill(t, f.machine.dir, from)
			fill(t, into, c.there)
			if err := os.MkdirAll(into, 0o755); err != nil {
				t.Fatal(err)
			}
			check("out", into, s.ok("cp", "box:"+c.src, into+"/"+c.dst))
		})
	}
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func TestCpRefusals(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"file": "text", "dir/a": "A", "both/x": ""})
	here := t.TempDir()
	fill(t, here, map[string]string{"file": "text", "dir/a": "A", "both": "mine", "over/file/": ""})
	s := newShell(t, f)
	for want, args := range map[string][]string{
		"both sides are in sandboxes":                   {"box:a", "box:b"},
		"berth cp box:a - | berth cp - box:b":           {"box:a", "box:b"},
		"both sides are on this machine":                {"./a:b", "/tmp/c"},
		"needs SRC and DST":                             {"a"},
		"no such file or directory":                     {here + "/nosuch", "box:"},
		"there is no box:/workspace/nosuch":             {"box:nosuch", here},
		"neither a file nor a folder":                   {"/dev/null", "box:"},
		"dir is a folder and box:/workspace/file is":    {here + "/dir", "box:file"},
		"box:/workspace/dir is a folder and " + here:    {"box:dir", here + "/file"},
		"over/file is a folder and cannot become a fil": {"box:file", here + "/over"},
		"/etc/passwd is neither in /workspace":          {"box:/etc/passwd", here},
		"there is no sandbox \"nosuch\"":                {here + "/file", "nosuch:"},
	} {
		if r := s.berth(append([]string{"cp"}, args...)...); r.code != 125 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%v: %+v; want %q", args, r, want)
		}
	}
	if got := seenIn(t, f.machine.dir); len(got) != 3 {
		t.Errorf("the sandbox has %v", got)
	}
}

func TestCpTellsWhatItDid(t *testing.T) {
	f := newMachine(t)
	here := t.TempDir()
	fill(t, here, map[string]string{"dir/a": "A", "dir/l": "->a", "dir/out": "->/etc/passwd"})
	s := newShell(t, f)
	got := decode[copied](t, s.ok("cp", "--json", here+"/dir", "box:x"))
	if got.From != here+"/dir" || got.To != "box:/workspace/x" || got.Files != 1 || got.Links != 2 || got.Bytes != 1 {
		t.Errorf("--json printed %+v", got)
	}
	if out := s.ok("cp", "-q", here+"/dir/a", "box:y"); out != "" {
		t.Errorf("-q printed %q", out)
	}
	r := s.berth("cp", "box:x", here+"/back")
	if r.code != 0 || !strings.HasPrefix(r.out, "copied 1 file, 1 link, 1 byte to "+here+"/back (") || r.err != "berth: left out out: a link that leads out of the folder, to /etc/passwd\n" {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(here + "/back/out"); err == nil {
		t.Error("a link out of the folder was made")
	}
}

func TestCpKeepsModesAndTimes(t *testing.T) {
	f := newMachine(t)
	here := t.TempDir()
	fill(t, here, map[string]string{"run": "#!"})
	old := time.Unix(1e9, 0)
	_ = os.Chmod(here+"/run", 0o755)
	_ = os.Chtimes(f.machine.dir, old, old)
	s := newShell(t, f)
	s.ok("cp", here+"/run", "box:")
	s.ok("cp", "box:run", here+"/again")
	there, err1 := os.Stat(f.machine.dir + "/run")
	again, err2 := os.Stat(here + "/again")
	if err1 != nil || err2 != nil || there.Mode() != 0o755 || again.Mode() != 0o755 || !again.ModTime().Equal(there.ModTime()) {
		t.Errorf("%v %v %v %v", there.Mode(), again.Mode(), err1, err2)
	}
}

func TestCpOfArchives(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"dir/a": "A", "one": "1"})
	s := newShell(t, f)
	for src, want := range map[string]string{"box:dir": "a=A", "box:one": "one=1"} {
		if got := untar(t, s.ok("cp", src, "-")); got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
	s.deps.Stdin = strings.NewReader(s.ok("cp", "box:dir", "-"))
	contains(t, "words", s.ok("cp", "-", "box:copy"), "copied 1 file, 1 byte to box:/workspace/copy (")
	if got := seenIn(t, f.machine.dir+"/copy"); got["a"] != "A" {
		t.Errorf("unpacked %v", got)
	}
	s.deps.Stdin = strings.NewReader("no tar at all")
	if r := s.berth("cp", "-", "box:copy"); r.code != 125 || !strings.Contains(r.err, "archive is broken") {
		t.Errorf("%+v", r)
	}
	m := newTerminal(t)
	for want, args := range map[string][]string{"a tar is not for a terminal": {"cp", "box:dir", "-"}, "and that is a terminal": {"cp", "-", "box:dir"}} {
		if r := newShell(t, f).at(m).berth(args...); r.code != 125 {
			t.Errorf("%v: exit %d", args, r.code)
		}
		m.Wait(want)
	}
	if r := s.berth("cp", "box:nosuch", "-"); r.code != 125 || r.out != "" {
		t.Errorf("%+v", r)
	}
}

func untar(t testing.TB, data string) string {
	t.Helper()
	var found []string
	r := tar.NewReader(strings.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return strings.Join(found, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r)
		found = append(found, h.Name+"="+string(body))
	}
}

// TestCpFromAHostileServerStaysInDst goes the whole way with an archive that wants out.
func TestCpFromAHostileServerStaysInDst(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"dir/": ""})
	f.machine.archive = func() io.Reader {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		_ = w.WriteHeader(&tar.Header{Name: "../evil\x1b[2J", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644})
		_, _ = w.Write([]byte("x"))
		_ = w.Close()
		return &b
	}
	here := t.TempDir()
	r := newShell(t, f).berth("cp", "box:dir", here+"/in")
	if r.code != 125 || !strings.Contains(r.err, `its entry "../evil\x1b[2J" leads out of the folder`) {
		t.Errorf("%+v", r)
	}
	if got := seenIn(t, here); fmt.Sprint(got) != "map[in/:]" {
		t.Errorf("there is %v", got)
	}
}

func TestCpShowsABarAtATerminal(t *testing.T) {
	f := newMachine(t)
	here := t.TempDir()
	fill(t, here, map[string]string{"dir/a": strings.Repeat("x", 1000), "dir/b": ""})
	m := newTerminal(t)
	if r := newShell(t, f).at(m).berth("cp", here+"/dir", "box:"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	m.Wait("copied 2 files, 1000 bytes to box:/workspace/dir (")
	contains(t, "screen", m.Text(), "copying "+here+"/dir ", "%", "\r\x1b[K")
}

func TestCpFollowsALinkThatIsNamed(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"real/a": "A", "tofolder": "->real", "tofile": "->real/a", "empty/": "", "toempty": "->empty"})
	here := t.TempDir()
	fill(t, here, map[string]string{"file": "text", "link": "->file"})
	s := newShell(t, f)
	s.ok("cp", here+"/link", "box:tofolder")
	s.ok("cp", here+"/file", "box:toempty")
	s.ok("cp", "box:tofile", here+"/copy")
	s.ok("cp", "box:tofolder", here+"/folder")
	there, back := seenIn(t, f.machine.dir), seenIn(t, here)
	if there["real/link"] != "text" || there["empty/file"] != "text" || back["copy"] != "A" || back["folder/a"] != "A" || there["tofolder"] != "->real" {
		t.Errorf("there %q, here %q", there, back)
	}
}

func TestCpNamesWhatItLeavesOut(t *testing.T) {
	f := newMachine(t)
	here := t.TempDir()
	fill(t, here, map[string]string{"dir/a": "A"})
	for i := range maxLeft + 2 {
		if err := syscall.Mkfifo(fmt.Sprintf("%s/dir/pipe-%02d", here, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newShell(t, f)
	r := s.berth("cp", here+"/dir", "box:")
	if r.code != 0 || strings.Count(r.err, "\n") != maxLeft+1 {
		t.Errorf("%+v", r)
	}
	contains(t, "stderr", r.err, "berth: left out pipe-00: not a file, folder or link\n", "berth: … and 2 more\n")
	if err := syscall.Mkfifo(f.machine.dir+"/dir/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	r = s.berth("cp", "box:dir", here+"/back")
	if r.code != 0 || r.err != "berth: 1 left out: pipe (not a plain file)\n" {
		t.Errorf("%+v", r)
	}
	if r = s.berth("cp", "box:dir", "-"); r.code != 0 || r.err != "berth: 1 file was left out; a comment in the tar names them\n" {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

func TestCpOfWhatCannotBeRead(t *testing.T) {
	f := newMachine(t)
	here := t.TempDir()
	fill(t, here, map[string]string{"dir/a": "A", "file": ""})
	s := newShell(t, f)
	f.machine.dir += "/nosuch"
	for _, args := range [][]string{{here + "/dir", "box:"}, {here + "/file", "box:x"}, {"box:x", here}} {
		if r := s.berth(append([]string{"cp"}, args...)...); r.code != 125 || !strings.Contains(r.err, "no such file") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := s.berth("cp", "box:.", here+"/file/below"); r.code != 125 || !strings.Contains(r.err, "berth: ") {
		t.Errorf("%+v", r)
	}
}
