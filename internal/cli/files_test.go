package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// fill writes files: names that end in / are folders, texts that begin with -> links.
func fill(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			switch target, link := strings.CutPrefix(text, "->"); {
			case strings.HasSuffix(name, "/"):
				err = os.MkdirAll(at, 0o755)
			case link:
				err = os.Symlink(target, at)
			default:
				err = os.WriteFile(at, []byte(text), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesListsAsLsDoes(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"a.txt": "hello", "dir/deep/x": "", "link": "->a.txt", ".hidden": "", "home/.profile": "", "evil\x1b[2J": ""})
	if err := syscall.Mkfifo(f.machine.dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	s := newShell(t, f)
	out := s.ok("files", "box")
	contains(t, "list", out, "MODE        SIZE     MODIFIED", "-rw-r--r--  5 bytes", "a.txt\n", "drwxr-xr-x  -  ", "dir/\n", "lrwxrwxrwx", "link -> a.txt\n", "prw-------", `evil\x1b[2J`)
	if strings.Contains(out, ".hidden") || strings.Contains(out, "\x1b") {
		t.Errorf("list:\n%s", out)
	}
	contains(t, "-a", s.ok("files", "box", "-a"), ".hidden\n")
	if out := s.ok("files", "box", "dir", "-R", "-q"); out != "deep\ndeep/x\n" {
		t.Errorf("-R printed %q", out)
	}
	if out := s.ok("files", "box", "dir", "--depth", "1", "-q"); out != "deep\n" {
		t.Errorf("--depth 1 printed %q", out)
	}
	for _, at := range [][]string{{"box:a.txt"}, {"box", "/workspace/a.txt"}, {"box", "./dir/../a.txt"}} {
		if out := s.ok(append([]string{"files", "-q"}, at...)...); out != "a.txt\n" {
			t.Errorf("%v printed %q", at, out)
		}
	}
	if out := s.ok("files", "box", "dir/deep/x", "-q"); out != "x\n" {
		t.Errorf("one file printed %q", out)
	}
	for _, at := range []string{"box:~", "box:/home/agent/"} {
		if got := decode[api.List[api.File]](t, s.ok("files", at, "-a", "--json")); len(got.Items) != 1 || got.Items[0].Path != ".profile" {
			t.Errorf("%s: %+v", at, got)
		}
	}
	if r := s.berth("files", "box", "dir/deep/x/"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	_ = os.RemoveAll(f.machine.dir + "/dir/deep/x")
	if r := s.berth("files", "box", "dir/deep"); r.err != "There is nothing in box:/workspace/dir/deep.\n" {
		t.Errorf("%+v", r)
	}
}

func TestFilesOfNoPlace(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	for want, args := range map[string][]string{
		"/etc is neither in /workspace nor in /home/agent, the folders that are kept": {"files", "box", "/etc"},
		"'berth exec box -- ls -l /etc/passwd' looks at anything else":                {"cat", "box:/etc/passwd"},
		"/x is neither in":                         {"tree", "box", "../x"},
		"/workspacex is neither in":                {"tree", "box", "/workspacex"},
		"box:a names a path already; \"b\" is one": {"files", "box:a", "b"},
		"--depth takes a whole number from 1 to":   {"files", "box", "--depth", "0"},
		"--depth is at most 64":                    {"tree", "box", "--depth", "65"},
		"--limit at most 10000":                    {"tree", "box", "--limit", "10001"},
		"box:/workspace is a folder":               {"cat", "box"},
		"there is no sandbox \"nosuch\"":           {"files", "nosuch"},
		"hint: List the folder to see its files":   {"cat", "box", "nosuch"},
	} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%v: %+v; want %q", args, r, want)
		}
	}
}

func TestTreeDrawsBranches(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"a/b/c/d": "", "a/x": "", "l": "->a", "z": ""})
	s := newShell(t, f)
	want := `box:/workspace
├── a/
│   ├── b/
│   │   └── c/
│   │       └── d
│   └── x
├── l -> a
└── z
3 folders, 4 files
`
	if out := s.ok("tree", "box", "--depth", "9"); out != want {
		t.Errorf("got\n%s", out)
	}
	r := s.berth("tree", "box", "--limit", "2")
	if r.out != "box:/workspace\n├── a/ …\n└── l -> a\n1 folder, 1 file\n" || r.err != "Not everything is shown: --depth and --limit show more.\n" {
		t.Errorf("cut at the root: %q %q", r.out, r.err)
	}
	r = s.berth("tree", "box", "--limit", "4", "-a")
	if r.out != "box:/workspace\n├── a/\n│   ├── b/ …\n│   └── …\n├── l -> a\n└── z\n2 folders, 2 files\n" {
		t.Errorf("cut in a folder: %q", r.out)
	}
	if got := decode[api.FileTree](t, s.ok("tree", "box", "a", "--json")); len(got.Children) != 2 {
		t.Errorf("--json printed %+v", got)
	}
}

// What happened to the files since the last use is printed once, beside the answer.
func TestFilesSayWhatWasLost(t *testing.T) {
	testkit.Proves(t, "S18")
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"})
	f.machine.notice = "the sandbox was restored from an older version"
	s := newShell(t, f)
	for _, args := range [][]string{{"cat", "box:a"}, {"files", "box"}, {"tree", "box"}, {"cp", "box:a", t.TempDir()}, {"cp", f.machine.dir + "/b", "box:copy"}} {
		r := s.berth(args...)
		if r.code != 0 || strings.Count(r.err, "berth: note: the sandbox was restored") != 1 || strings.Contains(r.out, "note:") {
			t.Errorf("%v: %d, %q, %q", args, r.code, r.out, r.err)
		}
	}
}

func TestCatPrintsBytes(t *testing.T) {
	f := newMachine(t)
	fill(t, f.machine.dir, map[string]string{"odd": "a\xff\x1b]0;x\x07\n", "text": "hello"})
	s := newShell(t, f)
	if out := s.ok("cat", "box:odd"); out != "a\xff\x1b]0;x\x07\n" {
		t.Errorf("printed %q", out)
	}
	if got := decode[shownFile](t, s.ok("cat", "box", "text", "--json")); got.Text != "hello" || got.Size != 5 {
		t.Errorf("--json printed %+v", got)
	}
	if got := decode[shownFile](t, s.ok("cat", "box", "odd", "--json")); string(got.Base64) != "a\xff\x1b]0;x\x07\n" || got.Path != "box:/workspace/odd" {
		t.Errorf("--json printed %+v", got)
	}
	m := newTerminal(t)
	newShell(t, f).at(m).berth("cat", "box:odd")
	m.Wait(`a\xff\x1b]0;x\a` + "\n")
}
