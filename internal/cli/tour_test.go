package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// tourCommands are the commands of the README's tour, as they are written.
func tourCommands(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, _ := strings.Cut(string(readme), "\n## The tour\n")
	_, tour, _ = strings.Cut(tour, "\n```sh\n")
	tour, _, ok := strings.Cut(tour, "\n```\n")
	if !ok {
		t.Fatal("the README has no tour")
	}
	return strings.Split(tour, "\n")
}

var usedLine = regexp.MustCompile(`(?m)^↑ ≈ \d+ in · \d+ out · \S+ · (?:version (\S+)|not saved yet)$`)

// TestTourOfTheREADME is a person with a fresh checkout, no key and no account: after make run, three
// commands to an answer, a file, a version that is brought back, and what it used.
func TestTourOfTheREADME(t *testing.T) {
	testkit.Proves(t, "X6")
	real := newRealWith(t, "")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testkit.Binary(t), filepath.Join(dir, "bin", "berth")); err != nil {
		t.Fatal(err)
	}
	commands := tourCommands(t)
	if len(commands) > 3 {
		t.Errorf("the tour has %d commands", len(commands))
	}
	began := time.Now()
	var said []string
	for _, line := range commands {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "BERTH_SERVER=http://" + real.addr, "BERTH_DATA_DIR=" + real.dir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		said = append(said, string(out))
	}
	t.Logf("the tour took %s:\n%s", time.Since(began).Round(time.Millisecond), strings.Join(said, "\n"))
	contains(t, "the first answer", said[0], "demo agent", "⏺ write: notes.txt", "Done: notes.txt is in the workspace.")
	contains(t, "the second", said[1], "terminated ")
	contains(t, "the last", said[2], "⏺ read: notes.txt", "It says:\n\nhello from a sandbox\n")
	first, last := usedLine.FindStringSubmatch(said[0]), usedLine.FindStringSubmatch(said[2])
	if first == nil || last == nil {
		t.Fatal("no line tells what was used")
	}

	s := real.shell()
	id := strings.TrimSpace(s.ok("conversation", "show", "-q"))
	if got := decode[api.Sandbox](t, s.ok("get", id, "--json")); got.Incarnation != 2 {
		t.Errorf("the machine is the sandbox's incarnation %d, want the second", got.Incarnation)
	}
	if out := s.ok("cat", id+":notes.txt"); out != "hello from a sandbox\n" {
		t.Errorf("the file says %q", out)
	}
	contains(t, "versions", s.ok("versions", id, "-q"), first[1])
	contains(t, "usage", s.ok("usage", "--by", "model"), "demo")
}
