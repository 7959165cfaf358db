package local_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
)

// instances are how the guest's suite gets at instances of this driver.
func instances(change ...func(*local.Options)) func(t testing.TB) func(t testing.TB) guest.Conn {
	return func(t testing.TB) func(t testing.TB) guest.Conn {
		d := open(t, t.TempDir(), change...)
		id := create(t, d, spec()).ID
		return func(t testing.TB) guest.Conn {
			conn, err := d.Guest(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
	}
}

func TestGuestPassesSuite(t *testing.T) {
	guesttest.Run(t, guesttest.Harness{New: instances(), Isolated: true})
}

// The files of Berth and of agents are no part of a repository in the workspace.
func TestGitIgnoresFilesOfBerth(t *testing.T) {
	conn := instances()(t)(t)
	const script = `mkdir -p .berth/claude sub/.berth && touch .berth/claude/x .sandbox-state .sandbox-state.idx sub/.berth/kept a &&
git init -q && git add -A && git status --porcelain`
	var out strings.Builder
	exit, err := conn.Run(t.Context(), guest.Cmd{Argv: []string{"/bin/sh", "-c", script}, Dir: guest.Workspace}, guest.Stdio{Stdout: &out, Stderr: &out})
	if err != nil || exit.Code != 0 || out.String() != "A  a\nA  sub/.berth/kept\n" {
		t.Errorf("%v, exit %d: %s", err, exit.Code, out.String())
	}
}

func TestGuestPassesSuiteAsUser(t *testing.T) {
	if !inUser() {
		asUser(t, 65534, "TestGuestPassesSuiteAsUser")
		return
	}
	guesttest.Run(t, guesttest.Harness{
		New:      instances(func(o *local.Options) { o.Tier = local.TierUser }),
		Isolated: true, Single: true,
	})
}
