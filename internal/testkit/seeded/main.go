package seeded

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// options are the command's flags.
type options struct {
	root          string
	always, sound bool
	check, list   bool
	only          string
	stdout        io.Writer
}

// Main runs the command seeded and returns its exit code: 0 if every bug was noticed, 1 if not, 2 if the
// command itself failed.
func Main(args []string, stdout, stderr io.Writer) int {
	o := options{stdout: stdout}
	f := flag.NewFlagSet("seeded", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.root, "root", ".", "the module's `folder`")
	f.StringVar(&o.only, "only", "", "run the bug of this `name`, or those of a package: store/nofence, store")
	f.BoolVar(&o.always, "always", false, "run only the tests marked always")
	f.BoolVar(&o.sound, "sound", false, "first run each test without its bug; it must pass")
	f.BoolVar(&o.check, "check", false, "only check that all patches apply and their tests exist")
	f.BoolVar(&o.list, "list", false, "only list the bugs")
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
	root, err := filepath.Abs(o.root)
	if err != nil {
		return false, err
	}
	if o.root, err = filepath.EvalSymlinks(root); err != nil {
		return false, err
	}
	bugs, err := Load(os.DirFS(o.root))
	if err != nil {
		return false, err
	}
	bugs, err = o.choose(bugs)
	if err != nil {
		return false, err
	}
	if o.list {
		o.print(bugs)
		return true, nil
	}
	wrong := Check(os.DirFS(o.root), bugs)
	for _, w := range wrong {
		fmt.Fprintln(o.stdout, w)
	}
	if len(wrong) > 0 || o.check {
		return len(wrong) == 0, nil
	}
	return o.runAll(bugs)
}

// choose returns the bugs that the flags select, each with the selected tests.
func (o options) choose(bugs []Bug) ([]Bug, error) {
	var chosen []Bug
	for _, bug := range bugs {
		if o.only != "" && bug.Name != o.only && !strings.HasPrefix(bug.Name, strings.TrimSuffix(o.only, "/")+"/") {
			continue
		}
		var tests []Test
		for _, test := range bug.Tests {
			if test.Always || !o.always {
				tests = append(tests, test)
			}
		}
		if bug.Tests = tests; len(tests) > 0 {
			chosen = append(chosen, bug)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no such bug: seeded -list shows all")
	}
	return chosen, nil
}

func (o options) print(bugs []Bug) {
	for _, bug := range bugs {
		fmt.Fprintf(o.stdout, "%s: %s\n", bug.Name, bug.Breaks)
		for _, test := range bug.Tests {
			always := ""
			if test.Always {
				always = " always"
			}
			fmt.Fprintf(o.stdout, "    %s %s%s\n", test.Package, test.Pattern, always)
		}
	}
}

func (o options) runAll(bugs []Bug) (bool, error) {
	noticed, missed := 0, 0
	sound := map[Test]string{}
	for _, bug := range bugs {
		for _, test := range bug.Tests {
			start := time.Now()
			why, err := o.try(bug, test, sound)
			if err != nil {
				return false, err
			}
			if why != "" {
				missed++
				fmt.Fprintf(o.stdout, "MISSED   %s (%s) by %s %s: %s\n", bug.Name, bug.Breaks, test.Package, test.Pattern, why)
				continue
			}
			noticed++
			fmt.Fprintf(o.stdout, "noticed  %-28s by %s %s (%.1fs)\n", bug.Name, test.Package, test.Pattern, time.Since(start).Seconds())
		}
	}
	fmt.Fprintf(o.stdout, "%d times a seeded bug was noticed, %d times missed\n", noticed, missed)
	return missed == 0, nil
}

// try runs the test with the bug. It returns "" if the test noticed the bug, and otherwise the reason why it does not
// count. The map sound caches the results of runs without a bug.
func (o options) try(bug Bug, test Test, sound map[Test]string) (string, error) {
	if o.sound {
		if _, known := sound[test]; !known {
			sound[test] = goTest(o.root, "", test).sound()
		}
		if sound[test] != "" {
			return sound[test], nil
		}
	}
	dir, err := os.MkdirTemp("", "berth-seeded-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := bug.writeOverlay(o.root, dir)
	if err != nil {
		return "", err
	}
	return goTest(o.root, overlay, test).noticed(), nil
}
