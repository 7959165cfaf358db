package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// TestProjectsOnARealMachine is the life of a project as docs/how-to/projects.md tells it.
func TestProjectsOnARealMachine(t *testing.T) {
	testkit.Proves(t, "X6")
	s := newReal(t).shell()
	contains(t, "ensure", s.ok("project", "ensure", "shop"), "shop is running (made in ")
	id := strings.TrimSpace(s.ok("project", "ensure", "shop", "-q"))
	if r := s.berth("project", "exec", "shop", "--", "sh", "-c", "echo kept > a.txt; exit 7"); r.code != 7 {
		t.Errorf("exec: %+v", r)
	}
	if out := s.ok("project", "tool", "shop", "read", "file_path=a.txt", "limit=1"); !strings.HasSuffix(out, "kept\n") {
		t.Errorf("read printed %q", out)
	}
	if r := s.berth("project", "tool", "shop", "bash", "command=echo out; exit 4"); r.code != 4 || !strings.HasPrefix(r.out, "out\n") {
		t.Errorf("bash: %+v", r)
	}
	contains(t, "tools", s.ok("project", "tools", "shop"), "bash ", "grep ", "command cwd? timeout?\n")
	contains(t, "health", s.ok("project", "health", "shop"), "shop is healthy\n")
	contains(t, "explain", s.ok("explain", id), "Running for ", "desired state running", "every file")
	contains(t, "restart", s.ok("project", "restart", "shop"), "restarted shop (")

	t.Run("cleanup", func(t *testing.T) { realCleanup(t, s) })
	if r := s.berth("project", "exec", "shop", "--", "cat", "a.txt"); r.code != 0 || r.out != "kept\n" || !strings.Contains(r.err, "The workspace was restored from version ") {
		t.Errorf("after a cleanup: %+v", r)
	}
	s.ok("project", "rm", "--sandbox-only", "shop")
	contains(t, "ls", s.ok("project", "ls", "--status", "TERMINATED"), "shop ", id)
	if r := s.berth("project", "exec", "shop", "--", "ls"); r.code != 0 || r.out != "a.txt\n" || !strings.Contains(r.err, "The workspace was restored from version ") {
		t.Errorf("anew: %+v", r)
	}
	contains(t, "sweep", s.ok("sweep"), "nothing to do", "1 instance at local")
	s.ok("project", "rm", "shop")
	if r := s.berth("project", "get", "shop"); r.code != 125 || !strings.Contains(r.err, "'berth project ensure shop' makes this one") {
		t.Errorf("%+v", r)
	}
}

// realCleanup waits until the project has been idle for a second, which only the server's clock says.
func realCleanup(t *testing.T, s *shell) {
	testkit.Eventually(t, 30*time.Second, func() error {
		got := decode[api.ProjectCleanup](t, s.ok("project", "cleanup", "--max-idle", "1s", "--json"))
		if len(got.Items) != 1 || !got.Items[0].Done || got.Items[0].Action != "terminate" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	if r := s.berth("project", "health", "shop", "-q"); r.code != 1 {
		t.Errorf("health of a terminated one: %+v", r)
	}
	contains(t, "sync", s.ok("project", "sync", "shop"), "agrees with its driver")
}
