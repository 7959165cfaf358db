package seeded

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

const repository = "../../.."

func TestBerth(t *testing.T) {
	bugs, err := Load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	always := 0
	for _, b := range bugs {
		for _, test := range b.Tests {
			if test.Always {
				always++
			}
		}
	}
	if want := 3; always < want {
		t.Errorf("%d tests are marked always, want %d", always, want)
	}
	if code, out := command(t, repository, "-check"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func command(t *testing.T, root string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := Main(append([]string{"-root", root}, args...), &out, &out)
	return code, out.String()
}

// nofence is a diff of x/fence.go in the module of these tests.
const nofence = `diff --git a/x/fence.go b/x/fence.go
index 1111111..2222222 100644
--- a/x/fence.go
+++ b/x/fence.go
@@ -3,3 +3,3 @@ package x
 // Fenced says that the fence stands.
-const Fenced = true
+const Fenced = false

`

func TestParseBug(t *testing.T) {
	got, err := ParseBug("Breaks: the fence\nTest: ./x ^TestA$\nTest: ./y TestB|TestC always\n\n" + nofence)
	want := []Test{{Package: "./x", Pattern: "^TestA$"}, {Package: "./y", Pattern: "TestB|TestC", Always: true}}
	if err != nil || got.Breaks != "the fence" || !reflect.DeepEqual(got.Tests, want) || got.diff[0].path != "x/fence.go" {
		t.Errorf("%+v, %v", got, err)
	}
	const header = "Breaks: x\nTest: ./x TestA\n"
	for name, c := range map[string]struct{ text, want string }{
		"no header":     {nofence, "before the diff"},
		"no test":       {"Breaks: x\n" + nofence, "before the diff"},
		"no reason":     {"Test: ./x TestA\n" + nofence, "before the diff"},
		"two reasons":   {"Breaks: y\n" + header + nofence, "line 2"},
		"other line":    {"Tests: ./x TestA\n" + nofence, "line 1"},
		"package":       {"Test: x TestA\n" + nofence, "./package"},
		"no pattern":    {"Test: ./x\n" + nofence, "./package"},
		"other word":    {"Test: ./x TestA sometimes\n" + nofence, "./package"},
		"pattern":       {"Test: ./x (\n" + nofence, "missing closing"},
		"no diff":       {header, "no diff"},
		"no hunks":      {header + "diff --git a/x b/x\n", "no hunks"},
		"rename":        {header + "diff --git a/x b/y\n", "one file"},
		"binary":        {header + "diff --git a/x b/x\nBinary files differ\n", "cannot apply"},
		"no newline":    {header + nofence[:len(nofence)-1] + "\\ No newline at end of file\n", "cannot apply"},
		"mode and copy": {header + "diff --git a/x b/x\ncopy from y\n", "cannot apply"},
	} {
		if _, err := ParseBug(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestPatchesApplyInOnePlaceOnly(t *testing.T) {
	const head = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
	for name, c := range map[string]struct{ text, diff, want, err string }{
		"in place":     {"a\nb\nc\n", head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n", ""},
		"lines above":  {"x\ny\na\nb\nc\n", head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "x\ny\na\nB\nc\n", ""},
		"two hunks":    {"a\nb\nc\nd\n", head + "@@ -1,1 +1,0 @@\n-a\n@@ -4,1 +3,1 @@\n-d\n+D\n", "b\nc\nD\n", ""},
		"empty line":   {"a\n\nb\n", head + "@@ -1,3 +1,2 @@\n a\n\n-b\n", "a\n\n", ""},
		"other lines":  {"a\nb\nd\n", head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "", "not there"},
		"part of line": {"xa\nb\nc\n", head + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "", "not there"},
		"twice":        {"a\nb\na\nb\n", head + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "", "2 times"},
		"no context":   {"a\n", head + "@@ -0,0 +1,1 @@\n+B\n", "", "not there"},
	} {
		files, err := parseDiff(c.diff)
		if err != nil {
			t.Fatal(err)
		}
		got, err := files[0].apply(c.text)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestCheck(t *testing.T) {
	const header = "Breaks: the fence\nTest: ./x ^TestGood$/^sub$\n\n"
	const create = "diff --git a/x/new.go b/x/new.go\nnew file mode 100644\n--- /dev/null\n+++ b/x/new.go\n@@ -0,0 +1 @@\n+package x\n"
	for name, c := range map[string]struct{ patch, want string }{
		"in order":       {header + nofence, ""},
		"a new file":     {header + nofence + create, ""},
		"a removed file": {header + "diff --git a/x/fence.go b/x/fence.go\n--- a/x/fence.go\n+++ /dev/null\n@@ -1 +0,0 @@\n-package x\n", ""},
		"lines changed":  {header + strings.ReplaceAll(nofence, "the fence stands", "it stands"), "not there"},
		"file is gone":   {header + strings.ReplaceAll(nofence, "fence.go", "gone.go"), "gone.go"},
		"file is there":  {header + strings.ReplaceAll(create, "new.go", "fence.go"), "it exists"},
		"syntax":         {header + strings.ReplaceAll(nofence, "= false", "="), "fence.go"},
		"a test":         {header + strings.ReplaceAll(create, "new.go", "new_test.go"), "not into its tests"},
		"the testkit":    {header + strings.ReplaceAll(create, "x/new.go", "internal/testkit/new.go"), "not into its tests"},
		"no such test":   {strings.ReplaceAll(header, "Good", "Bad") + nofence, "has no test ^TestBad$"},
		"no package":     {strings.ReplaceAll(header, "./x", "./z") + nofence, "./z has no tests"},
	} {
		bug, err := ParseBug(c.patch)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		root := fstest.MapFS{}
		for name, text := range files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		wrong := Check(root, []Bug{bug})
		if c.want == "" && len(wrong) > 0 || c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, wrong, c.want)
		}
	}
}

// files is a module whose one safeguard is a constant.
var files = map[string]string{
	"go.mod":      "module example\n\ngo 1.26\n",
	"x/fence.go":  "package x\n\n// Fenced says that the fence stands.\nconst Fenced = true\n",
	"cmd/main.go": "package main\n\nimport (\n\t\"os\"\n\t\"example/x\"\n)\n\nfunc main() { if !x.Fenced { os.Exit(3) } }\n",
	"x/x_test.go": `package x

import (
	"os"
	"os/exec"
	"testing"
)

func TestGood(t *testing.T) {
	if !Fenced {
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
	if !Fenced {
		t.Skip("no fence, no test")
	}
}

func TestCrash(t *testing.T) {
	if !Fenced {
		os.Exit(3)
	}
}

func TestProgram(t *testing.T) {
	if out, err := exec.Command("go", "run", "../cmd").CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
}
`,
}

// module writes the files and the patches, by the bugs' names, to a folder.
func module(t *testing.T, patches map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	for name, text := range patches {
		write(filepath.Join(Folder, name), text)
	}
	return root
}

func TestBugCountsOnlyIfTestRanAndFailed(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		code    int
		want    string
	}{
		"caught":        {"^TestGood$", 0, "1 times a seeded bug was noticed, 0 times missed"},
		"by a subtest":  {"^TestDeep$/^fence$", 0, "noticed  x/a"},
		"by a program":  {"^TestProgram$", 0, "noticed  x/a"},
		"not caught":    {"^TestHollow$", 1, "TestHollow passed with the bug in"},
		"one of two":    {"^(TestGood|TestHollow)$", 1, "TestHollow passed with the bug in"},
		"other subtest": {"^TestDeep$/^other$", 1, "TestDeep passed"},
		"always red":    {"^TestAlwaysRed$", 1, "must pass without the bug"},
		"skipped":       {"^TestSkips$", 1, "TestSkips was skipped"},
		"crashed":       {"^TestCrash$", 0, "noticed"},
		"no such test":  {"^TestNone$", 1, "has no test ^TestNone$"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := module(t, map[string]string{"x/a.patch": "Breaks: the fence\nTest: ./x " + c.pattern + "\n\n" + nofence})
			code, out := command(t, root, "-sound")
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.want, out)
			}
		})
	}
}

func TestBrokenBuildIsNotANoticedBug(t *testing.T) {
	root := module(t, map[string]string{
		"x/a.patch": "Breaks: the fence\nTest: ./x ^TestGood$\n" + strings.ReplaceAll(nofence, "= false", "= nonsense"),
	})
	code, out := command(t, root)
	if code != 1 || !strings.Contains(out, "no test ran") || !strings.Contains(out, "nonsense") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestFlagsChooseBugs(t *testing.T) {
	root := module(t, map[string]string{
		"x/a.patch": "Breaks: the fence\nTest: ./x ^TestGood$ always\nTest: ./x ^TestHollow$\n" + nofence,
		"y/b.patch": "Breaks: nothing\nTest: ./x ^TestHollow$\n" + nofence,
	})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "1 times a seeded bug was noticed, 2 times missed"},
		{[]string{"-always"}, 0, "1 times a seeded bug was noticed, 0 times missed"},
		{[]string{"-only", "y/b"}, 1, "0 times a seeded bug was noticed, 1 times missed"},
		{[]string{"-only", "x/"}, 1, "1 times a seeded bug was noticed, 1 times missed"},
		{[]string{"-only", "c"}, 2, "no such bug"},
		{[]string{"-check"}, 0, ""},
		{[]string{"-list"}, 0, "x/a: the fence\n    ./x ^TestGood$ always\n    ./x ^TestHollow$\ny/b: nothing\n"},
	} {
		code, out := command(t, root, c.args...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}

func TestPatchThatDoesNotApplyFailsTheCheck(t *testing.T) {
	root := module(t, map[string]string{
		"x/a.patch": "Breaks: the fence\nTest: ./x ^TestGood$\n" + strings.ReplaceAll(nofence, "-const", "-var"),
	})
	code, out := command(t, root, "-check")
	if code != 1 || !strings.Contains(out, "bugs/x/a.patch: x/fence.go: the lines of @@ -3,3 +3,3 @@ package x are not there") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestMainSaysWhatItCannotDo(t *testing.T) {
	for name, c := range map[string]struct {
		patches map[string]string
		args    []string
		want    string
	}{
		"bad flag":    {nil, []string{"-nonsense"}, "-nonsense"},
		"no bugs":     {nil, nil, Folder},
		"no root":     {nil, []string{"-root", "/none"}, "/none"},
		"bad patch":   {map[string]string{"x/a.patch": "nonsense"}, nil, "x/a.patch: line 1"},
		"other files": {map[string]string{"x/a.txt": "nonsense"}, nil, "x/a.txt: want"},
	} {
		if code, out := command(t, module(t, c.patches), c.args...); code != 2 || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, said %q", name, code, out)
		}
	}
}
