package seeded

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// options are the command's flags.
type options struct {
	root, list     string
	always, sound  bool
	checkOnly      bool
	only           string
	stdout, stderr io.Writer
}

// Main is the command seeded. Its result is the exit code: 0 if every bug was noticed, 1 if not, 2 if
// it could not do its work.
func Main(args []string, stdout, stderr io.Writer) int {
	o := options{stdout: stdout, stderr: stderr}
	f := flag.NewFlagSet("seeded", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.root, "root", ".", "the module's `folder`")
	f.StringVar(&o.list, "list", "internal/testkit/seeded.txt", "the `file` that lists the bugs, below the root")
	f.StringVar(&o.only, "only", "", "run the bug with this `tag`")
	f.BoolVar(&o.always, "always", false, "run the bugs marked always")
	f.BoolVar(&o.sound, "sound", false, "first run each test without its bug; it must pass")
	f.BoolVar(&o.checkOnly, "check", false, "only compare the list with the tree")
	if f.Parse(args) != nil {
		return 2
	}
	ok, err := o.run()
	if err != nil {
		fmt.Fprintln(stderr, "seeded:", err)
		return 2
	}
	if !ok {
		return 1
	}
	return 0
}

func (o options) run() (bool, error) {
	bugs, err := o.load()
	if err != nil {
		return false, err
	}
	files, err := defaultBuild(o.root)
	if err != nil {
		return false, err
	}
	wrong, err := Check(bugs, os.DirFS(o.root), files)
	if err != nil {
		return false, err
	}
	for _, w := range wrong {
		fmt.Fprintln(o.stdout, w)
	}
	if len(wrong) > 0 || o.checkOnly {
		return len(wrong) == 0, nil
	}
	return o.runAll(o.choose(bugs))
}

func (o options) load() ([]Bug, error) {
	path := filepath.Join(o.root, o.list)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	bugs, err := ParseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bugs, nil
}

// defaultBuild lists the Go files that a build without tags compiles, tests included.
func defaultBuild(root string) ([]string, error) {
	const each = `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .TestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-e", "-f", each, "./...")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list files of a default build: %w\n%s", err, stderr.String())
	}
	files := strings.Fields(strings.ReplaceAll(string(out), root+"/", ""))
	if len(files) == 0 {
		return nil, fmt.Errorf("list files of a default build: there are none in %s\n%s", root, stderr.String())
	}
	return files, nil
}

func (o options) choose(bugs []Bug) []Bug {
	var chosen []Bug
	for _, b := range bugs {
		if (o.only == "" || b.Tag == o.only) && (!o.always || b.Always) {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

func (o options) runAll(bugs []Bug) (bool, error) {
	if len(bugs) == 0 && o.only != "" {
		return false, fmt.Errorf("no bug %s in %s", o.only, o.list)
	}
	missed := 0
	for _, bug := range bugs {
		start := time.Now()
		why := o.try(bug)
		if why != "" {
			missed++
			fmt.Fprintf(o.stdout, "MISSED   %s (%s): %s\n", bug.Tag, bug.Breaks, why)
			continue
		}
		fmt.Fprintf(o.stdout, "noticed  %-28s by %s %s (%.1fs)\n", bug.Tag, bug.Package, bug.Test, time.Since(start).Seconds())
	}
	fmt.Fprintf(o.stdout, "%d seeded bugs noticed, %d missed\n", len(bugs)-missed, missed)
	return missed == 0, nil
}

// try returns why the bug does not count as noticed, or nothing.
func (o options) try(bug Bug) string {
	if o.sound {
		if why := goTest(o.root, bug, false).sound(); why != "" {
			return why
		}
	}
	return goTest(o.root, bug, true).noticed()
}
