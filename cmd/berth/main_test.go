package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berthdev/berth/internal/testkit"
)

// TestScripts types what a person types, at real servers, each script with a home and a data directory
// of its own. Testscript gets one more command: "ready FILE" waits until the server that was started
// last has written to FILE where it is, and sets BERTH_SERVER, SERVER_ADDR and SERVER_PID.
func TestScripts(t *testing.T) {
	bin := filepath.Dir(testkit.Binary(t))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_DATA_HOME", env.WorkDir)
			env.Setenv("DATA", filepath.Join(env.WorkDir, "berth"))
			env.Setenv("BERTH_LISTEN", "127.0.0.1:0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready},
	})
}

var greeting = regexp.MustCompile(`http://([0-9.:]+)/docs`)

func ready(ts *testscript.TestScript, _ bool, args []string) {
	started := ts.BackgroundCmds()
	if len(args) != 1 || len(started) == 0 {
		ts.Fatalf("usage: ready FILE, after a server was started in the background")
	}
	addr := awaitAddress(ts, ts.MkAbs(args[0]))
	ts.Setenv("BERTH_SERVER", "http://"+addr)
	ts.Setenv("SERVER_ADDR", addr)
	ts.Setenv("SERVER_PID", strconv.Itoa(started[len(started)-1].Process.Pid))
}

func awaitAddress(ts *testscript.TestScript, file string) string {
	deadline := time.After(30 * time.Second)
	for {
		text, _ := os.ReadFile(file)
		if m := greeting.FindSubmatch(text); m != nil {
			return string(m[1])
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			ts.Fatalf("the server has not said where it is: %s", text)
		}
	}
}
