package seeded

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestBerth(t *testing.T) {
	text, err := os.ReadFile("../seeded.txt")
	if err != nil {
		t.Fatal(err)
	}
	bugs, err := ParseList(string(text))
	if err != nil {
		t.Fatal(err)
	}
	always := 0
	for _, b := range bugs {
		if b.Always {
			always++
		}
	}
	if want := min(3, len(bugs)); always < want {
		t.Errorf("%d bugs are marked always, want %d", always, want)
	}
	if code, out := command(t, "../../..", "-check"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func command(t *testing.T, root string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := Main(append([]string{"-root", root}, args...), &out, &out)
	return code, out.String()
}

func TestParseList(t *testing.T) {
	got, err := ParseList("# words\n\nseeded_a | ./store | ^TestA$ | no fence\nseeded_b | ./turn | TestB|TestC | no lock | always\n")
	want := []Bug{
		{Tag: "seeded_a", Package: "./store", Test: "^TestA$", Breaks: "no fence"},
		{Tag: "seeded_b", Package: "./turn", Test: "TestB|TestC", Breaks: "no lock", Always: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, line := range map[string]string{
		"three columns": "seeded_a | ./store | TestA",
		"six columns":   "seeded_a | ./store | TestA | x | always | y",
		"other word":    "seeded_a | ./store | TestA | x | sometimes",
		"tag":           "nofence | ./store | TestA | x",
		"tag case":      "seeded_NoFence | ./store | TestA | x",
		"package":       "seeded_a | store | TestA | x",
		"no test":       "seeded_a | ./store |  | x",
		"pattern":       "seeded_a | ./store | ( | x",
	} {
		if _, err := ParseList("\n" + line); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v, want an error about line 2", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	list := []Bug{{Tag: "seeded_a"}}
	const bug, guard = "//go:build seeded_a\n\npackage x\n", "//go:build !seeded_a\n\npackage x\n"
	for name, c := range map[string]struct {
		bugs  []Bug
		files map[string]string
		built []string
		want  string
	}{
		"in order":       {list, map[string]string{"x/seeded_a.go": bug, "x/fence.go": guard, "x/x.go": "package x\n"}, []string{"x/fence.go", "x/x.go"}, ""},
		"other name":     {list, map[string]string{"x/nofence.go": bug}, nil, ""},
		"with others":    {list, map[string]string{"x/a.go": "//go:build linux && (seeded_a || ignore)\n\npackage x\n"}, nil, ""},
		"forgotten line": {nil, map[string]string{"x/seeded_a.go": "package x\n"}, []string{"x/seeded_a.go"}, "has no //go:build"},
		"line too late":  {nil, map[string]string{"x/seeded_a.go": "package x\n\n//go:build seeded_a\n"}, []string{"x/seeded_a.go"}, "has no //go:build"},
		"in release":     {list, map[string]string{"x/a.go": "//go:build seeded_a || linux\n\npackage x\n"}, []string{"x/a.go"}, "is in a release build"},
		"not listed":     {nil, map[string]string{"x/a.go": bug}, nil, "does not list"},
		"guard alone":    {nil, map[string]string{"x/a.go": guard}, []string{"x/a.go"}, "does not list"},
		"not planted":    {list, map[string]string{"x/a.go": guard}, []string{"x/a.go"}, "no file is built with it"},
		"test data":      {nil, map[string]string{"x/testdata/seeded_a.go": bug, ".git/a.go": bug, "bin/a.go": bug}, nil, ""},
	} {
		fsys := fstest.MapFS{}
		for path, text := range c.files {
			fsys[path] = &fstest.MapFile{Data: []byte(text)}
		}
		wrong, err := Check(c.bugs, fsys, c.built)
		if err != nil || c.want == "" && len(wrong) > 0 || c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, wrong, err, c.want)
		}
	}
	if _, err := Check(nil, os.DirFS(filepath.Join(t.TempDir(), "none")), nil); err == nil {
		t.Error("a missing tree: want an error")
	}
}

// module makes a module on disk whose one safeguard is a build tag.
func module(t *testing.T, list string, more map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"go.mod":        "module example\n\ngo 1.26\n",
		"list.txt":      list,
		"x/fence.go":    "//go:build !seeded_a\n\npackage x\n\nconst fenced = true\n",
		"x/seeded_a.go": "//go:build seeded_a\n\npackage x\n\nconst fenced = false\n",
		"x/x_test.go": `package x

import (
	"os"
	"testing"
)

func TestGood(t *testing.T) {
	if !fenced {
		t.Error("no fence")
	}
}

func TestDeep(t *testing.T) {
	t.Run("fence", TestGood)
	t.Run("other", func(t *testing.T) {})
}

func TestHollow(t *testing.T) {}

func TestAlwaysRed(t *testing.T) { t.Error("red") }

func TestSkips(t *testing.T) {
	if !fenced {
		t.Skip("no fence, no test")
	}
}

func TestCrash(t *testing.T) {
	if !fenced {
		os.Exit(3)
	}
}
`,
	}
	for name, text := range more {
		files[name] = text
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestBugCountsOnlyIfTestRanAndFailed(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		code    int
		want    string
	}{
		"caught":        {"^TestGood$", 0, "1 seeded bugs noticed, 0 missed"},
		"by a subtest":  {"^TestDeep$/^fence$", 0, "noticed  seeded_a"},
		"not caught":    {"^TestHollow$", 1, "TestHollow passed with the bug in"},
		"one of two":    {"^(TestGood|TestHollow)$", 1, "TestHollow passed with the bug in"},
		"other subtest": {"^TestDeep$/^other$", 1, "TestDeep passed"},
		"no such test":  {"^TestNone$", 1, "no tests to run"},
		"always red":    {"^TestAlwaysRed$", 1, "must pass without the bug"},
		"skipped":       {"^TestSkips$", 1, "TestSkips was skipped"},
		"crashed":       {"^TestCrash$", 0, "noticed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := module(t, "seeded_a | ./x | "+c.pattern+" | the fence", nil)
			code, out := command(t, root, "-list", "list.txt", "-sound")
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.want, out)
			}
		})
	}
}

func TestBrokenBuildIsNotANoticedBug(t *testing.T) {
	root := module(t, "seeded_a | ./x | ^TestGood$ | the fence", map[string]string{"x/seeded_a.go": "//go:build seeded_a\n\npackage x\n\nconst fenced = nonsense\n"})
	code, out := command(t, root, "-list", "list.txt")
	if code != 1 || !strings.Contains(out, "no test ran") || !strings.Contains(out, "nonsense") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	root = module(t, "seeded_a | ./x | ^TestNone$ | the fence", nil)
	if code, out := command(t, root, "-list", "list.txt"); code != 1 || !strings.Contains(out, "no test ran") {
		t.Errorf("no such test: exit code %d\n%s", code, out)
	}
}

func TestNestedBuildHasTheBug(t *testing.T) {
	root := module(t, "seeded_a | ./y | ^TestProgram$ | the fence", map[string]string{
		"cmd/main.go": "package main\n\nimport (\n\t\"os\"\n\t\"example/y\"\n)\n\nfunc main() { if !y.Fenced { os.Exit(3) } }\n",
		"y/fence.go":  "//go:build !seeded_a\n\npackage y\n\nconst Fenced = true\n",
		"y/broken.go": "//go:build seeded_a\n\npackage y\n\nconst Fenced = false\n",
		"y/y_test.go": "package y\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestProgram(t *testing.T) {\n\tif out, err := exec.Command(\"go\", \"run\", \"../cmd\").CombinedOutput(); err != nil {\n\t\tt.Errorf(\"%v %s\", err, out)\n\t}\n}\n",
	})
	if code, out := command(t, root, "-list", "list.txt", "-sound"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestFlagsChooseBugs(t *testing.T) {
	root := module(t, "seeded_a | ./x | ^TestGood$ | the fence | always\nseeded_b | ./x | ^TestHollow$ | nothing\n",
		map[string]string{"x/seeded_b.go": "//go:build seeded_b\n\npackage x\n"})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "1 seeded bugs noticed, 1 missed"},
		{[]string{"-always"}, 0, "1 seeded bugs noticed, 0 missed"},
		{[]string{"-only", "seeded_b"}, 1, "0 seeded bugs noticed, 1 missed"},
		{[]string{"-only", "seeded_c"}, 2, "no bug seeded_c"},
		{[]string{"-check"}, 0, ""},
	} {
		code, out := command(t, root, append([]string{"-list", "list.txt"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}

func TestListMustMatchTree(t *testing.T) {
	root := module(t, "", nil)
	code, out := command(t, root, "-list", "list.txt")
	if code != 1 || !strings.Contains(out, "seeded_a.go uses seeded_a") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestMainSaysWhatItCannotDo(t *testing.T) {
	root := module(t, "nonsense", nil)
	for name, args := range map[string][]string{
		"bad flag":   {"-nonsense"},
		"no list":    {"-list", "none.txt"},
		"bad list":   {"-list", "list.txt"},
		"no module":  {"-root", t.TempDir(), "-list", "list.txt"},
		"no root":    {"-root", filepath.Join(root, "none")},
		"not a root": {"-root", "/proc", "-list", "version"},
	} {
		if code, out := command(t, root, args...); code != 2 || out == "" {
			t.Errorf("%s: exit code %d, said %q", name, code, out)
		}
	}
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "list.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := command(t, empty, "-list", "list.txt"); code != 2 || !strings.Contains(out, "default build") {
		t.Errorf("a folder without go.mod: exit code %d, said %q", code, out)
	}
}
