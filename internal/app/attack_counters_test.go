package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// A sandbox that takes all it gets of what the kernel counts, under several uids of its own, takes nothing
// from another sandbox, and nothing from root outside. It runs alone, so that only the sandbox takes much.
func TestKernelCountersAreEachSandboxesOwn(t *testing.T) {
	testkit.Proves(t, "E3", "E9")
	a := newArena(t, "")
	a.box("hog", "")
	a.box("neighbour", "")
	for kind, least := range map[string]int{"instances": 50, "watches": 10_000, "terminals": 20, "timers": 1000, "queues": 2} {
		t.Run(kind, func(t *testing.T) {
			sub := *a
			sub.T = t
			sub.takesFew(kind)
			first := sub.takesAll(kind, 0)
			t.Logf("root takes %d", first)
			if first < least {
				t.Errorf("root of the sandbox takes only %d: too few for ordinary programs", first)
			}
			for _, uid := range []int{2000, 2001, 2002} {
				t.Logf("%d takes %d", uid, sub.takesAll(kind, uid))
			}
			sub.takesFew(kind)
			if res := sub.run("neighbour", api.Exec{Command: []string{"/workspace/attacker", "take", kind, "5"}}); res.ExitCode != 0 {
				t.Errorf("the neighbour: %+v", res)
			}
			sub.run("hog", api.Exec{Command: []string{"/workspace/attacker", "everyone", "999999"}, User: "root"})
		})
	}
}

// takesFew checks that root outside gets a few of what a counter counts.
func (a *arena) takesFew(kind string) {
	a.Helper()
	if code, out := a.plain(nil, "", "take", kind, "5"); code != 0 {
		a.Errorf("root of this machine gets none: %s", out)
	}
}

// takesAll has a user of the hog take all it gets, and hold it.
func (a *arena) takesAll(kind string, uid int) (taken int) {
	a.Helper()
	line := fmt.Sprintf("exec setpriv --reuid %d --clear-groups /workspace/attacker take %s 0", uid, kind)
	stream := a.spawn("hog", api.Exec{Command: api.Shell(line), User: "root"})
	var seen strings.Builder
	for !strings.Contains(seen.String(), "\n") {
		ev, err := stream.Next()
		if err != nil {
			a.Fatalf("only %q: %v", seen.String(), err)
		}
		seen.Write(ev.Data())
	}
	if _, err := fmt.Sscanf(seen.String(), "took %d", &taken); err != nil {
		a.Fatalf("it says %q: %v", seen.String(), err)
	}
	return taken
}

// The contexts of asynchronous requests are the whole machine's, and few: no sandbox has any, as on a kernel
// without them.
func TestNoSandboxTakesRequestsOfTheMachine(t *testing.T) {
	testkit.Proves(t, "E3", "E9")
	t.Parallel()
	a := newArena(t, "")
	a.box("hog", "")
	if code, out := a.plain(nil, "", "take", "requests", "1"); code != 0 {
		t.Fatalf("a plain process gets none, so this proves nothing: %s", out)
	}
	for _, user := range []string{"agent", "root"} {
		res := a.run("hog", api.Exec{Command: []string{"/workspace/attacker", "take", "requests", "1"}, User: user})
		if res.ExitCode != 1 || !strings.Contains(res.Stderr, "function not implemented") {
			t.Errorf("as %s: %+v", user, res)
		}
	}
}
