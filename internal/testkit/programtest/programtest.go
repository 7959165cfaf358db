// Package programtest installs the real programs of agents for tests.
//
// [Dir] installs a program as 'berth template install' does, once for all test processes, and keeps it in bin/tests.
// [Place] puts it into a server's data directory.
package programtest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
)

// Dir returns a directory with bin/COMMAND of the program, which templates can mount. An empty version is the one that
// Berth was tested with.
func Dir(t testing.TB, name, version string) string {
	t.Helper()
	dir, err := Ensure(name, version)
	if err != nil {
		t.Fatalf("programtest: %v", err)
	}
	return dir
}

// Ensure is like [Dir], for code outside of tests.
func Ensure(name, version string) (string, error) {
	p, err := program.Find(name)
	if err != nil {
		return "", err
	}
	version = cmp.Or(version, p.Tested())
	return testkit.Kept("programs/"+name+"-"+version, func(dir string) error {
		return install(program.Options{Program: p, Dir: dir, Version: version})
	})
}

// pauses are the pauses between attempts: a registry may ask clients to try again later.
var pauses = []time.Duration{5 * time.Second, 20 * time.Second, 60 * time.Second}

func install(o program.Options) error {
	for n := 0; ; n++ {
		_, err := program.Install(context.Background(), o)
		if err == nil || n == len(pauses) {
			return err
		}
		<-time.After(pauses[n])
	}
}

// Place puts the program into a data directory, as 'berth template install' does. Its files are links to those of [Dir]
// where both are on one disk.
func Place(t testing.TB, name, dataDir string) {
	t.Helper()
	if err := Copy(Dir(t, name, ""), dataDir, name); err != nil {
		t.Fatalf("programtest: %v", err)
	}
}

// Copy copies a directory that [Ensure] returned into a data directory.
func Copy(from, dataDir, name string) error {
	to := program.Dir(dataDir, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if exec.Command("cp", "-al", from+"/.", to).Run() != nil { // another file system, for example
		if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", name, err, out)
		}
	}
	return nil
}
