package berth_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/internal/testkit"
)

// A program of another module embeds Berth, and is itself the helper in its sandboxes. With cgo it cannot be, and
// says what to do; then a berth binary is the helper.
func TestOutsideModule(t *testing.T) {
	testkit.Proves(t, "V1", "V2", "H6", "X9")
	const works = "turn: completed\nREADME.md: prepared\nnotes.txt: hello\nsandbox: terminated notes\n"
	module := outsideModule(t)
	t.Run("static", func(t *testing.T) {
		if out, err := runOutside(t, buildOutside(t, module, "CGO_ENABLED=0")); err != nil || out != works {
			t.Errorf("%v:\n%s", err, out)
		}
	})
	t.Run("page", func(t *testing.T) {
		if out, err := runOutside(t, buildOutside(t, pageModule(t, module), "CGO_ENABLED=0")); err != nil || out != "turn completed\nhello\n" {
			t.Errorf("%v:\n%s", err, out)
		}
	})
	t.Run("cgo", func(t *testing.T) {
		program := buildOutside(t, module, "CGO_ENABLED=1")
		out, err := runOutside(t, program)
		if err == nil || !strings.Contains(out, "built with cgo") || !strings.Contains(out, "CGO_ENABLED=0") || !strings.Contains(out, "GuestPath") {
			t.Errorf("without a helper: %v:\n%s", err, out)
		}
		if out, err := runOutside(t, program, guestPath); err != nil || out != works {
			t.Errorf("with a helper: %v:\n%s", err, out)
		}
	})
}

// outsideModule copies the module out of the checkout. Its dependencies are those of the checkout, so that nothing
// is downloaded.
func outsideModule(t *testing.T) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/embed")); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	goCommand(t, dir, "", "mod", "edit", "-replace=github.com/berthdev/berth="+root)
	return dir
}

// pageModule replaces the module's program by the one in docs/embedding.md.
func pageModule(t *testing.T, module string) string {
	t.Helper()
	page, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```go\n")
	program, _, found := strings.Cut(program, "```")
	if !found {
		t.Fatal("docs/embedding.md has no program")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(module)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func buildOutside(t *testing.T, module, cgo string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "embed")
	goCommand(t, module, cgo, "build", "-mod=mod", "-buildvcs=false", "-o", program, ".")
	return program
}

func goCommand(t *testing.T, dir, env string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func runOutside(t *testing.T, program string, args ...string) (string, error) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, append([]string{filepath.Join(dir, "data")}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Opening a sandbox that runs, again and again, takes less than a tenth of a second.
func TestRunningSandboxIsResolvedQuickly(t *testing.T) {
	testkit.Proves(t, "V5")
	b := open(t, berth.Config{})
	s := newSandbox(t, b)
	fastest := time.Hour
	for range 100 {
		start := time.Now()
		if _, err := b.Sandbox(t.Context(), s.ID(), me); err != nil {
			t.Fatal(err)
		}
		fastest = min(fastest, time.Since(start))
	}
	if t.Logf("the fastest of 100 took %v", fastest); fastest >= 100*time.Millisecond {
		t.Errorf("the fastest of 100 took %v", fastest)
	}
}

// BenchmarkSandbox opens a sandbox that runs.
func BenchmarkSandbox(b *testing.B) {
	opened := open(b, berth.Config{})
	s := newSandbox(b, opened)
	for b.Loop() {
		if _, err := opened.Sandbox(b.Context(), s.ID(), me); err != nil {
			b.Fatal(err)
		}
	}
}
