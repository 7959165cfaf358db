package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Before is a build of Berth from before its newest migration.
type Before struct {
	Exe    string
	Commit string
	// Drains reports whether the program ends by itself after a newer Berth has migrated the database.
	Drains bool
}

const (
	migrations  = "internal/store/migrations"
	schemaWatch = "internal/store/newschema.go"
)

// BinaryBefore builds Berth from the last commit before the newest migration. The binary is kept for the next run.
// The test is skipped if the repository's history is missing or incomplete.
func BinaryBefore(t testing.TB) Before {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if shallow, err := git(root, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		t.Skipf("this tree has no whole history ('git fetch --unshallow' brings it): %v", err)
	}
	b, err := buildBefore(root)
	if err != nil {
		t.Fatalf("build Berth of before the newest migration: %v", err)
	}
	return b
}

func buildBefore(root string) (b Before, err error) {
	newest, err := git(root, "log", "-1", "--diff-filter=A", "--format=%H", "--", migrations+"/*.sql")
	if err != nil || newest == "" {
		return b, fmt.Errorf("no commit added a migration: %w", err)
	}
	if b.Commit, err = git(root, "rev-parse", newest+"^"); err != nil {
		return b, err
	}
	if b.Drains, err = drains(root, b.Commit, newest); err != nil {
		return b, err
	}
	dir := filepath.Join(root, "bin", "tests", "before")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return b, err
	}
	unlock, err := lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return b, err
	}
	defer unlock()
	b.Exe = filepath.Join(dir, b.Commit)
	if _, err := os.Stat(b.Exe); err == nil {
		return b, nil
	}
	return b, buildCommit(root, b.Commit, b.Exe)
}

// buildCommit builds Berth from the files of the commit.
func buildCommit(root, commit, exe string) error {
	source, err := os.MkdirTemp("", "berth-before-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	archive := filepath.Join(source, ".archive.tar")
	if _, err := git(root, "archive", "--output="+archive, commit); err != nil {
		return err
	}
	if out, err := exec.Command("tar", "-x", "-C", source, "-f", archive).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", exe+".new", "./cmd/berth")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", commit, err, out)
	}
	return os.Rename(exe+".new", exe)
}

// drains reports whether Berth of the commit notices the newest migration while it runs. The first versions that
// watched the schema noticed a migration only if its number was higher than all numbers they had.
func drains(root, commit, newest string) (bool, error) {
	watches, err := git(root, "ls-tree", "--name-only", commit, schemaWatch)
	if err != nil || watches == "" {
		return false, err
	}
	watch, err := git(root, "show", commit+":"+schemaWatch)
	if err != nil || strings.Contains(watch, ") unknown(") {
		return err == nil, err
	}
	before, err := git(root, "ls-tree", "--name-only", commit, migrations+"/")
	if err != nil {
		return false, err
	}
	added, err := git(root, "show", "--diff-filter=A", "--format=", "--name-only", newest, "--", migrations+"/*.sql")
	return lastMigration(added) > lastMigration(before), err
}

// lastMigration returns the greatest name of a migration in the lines of names. The names begin with numbers.
func lastMigration(names string) (last string) {
	for name := range strings.Lines(names) {
		if name = strings.TrimSpace(name); strings.HasSuffix(name, ".sql") {
			last = max(last, name)
		}
	}
	return last
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(words.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
