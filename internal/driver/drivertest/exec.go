package drivertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

func runExec(run runner) {
	run("ExecExitCode", testExecExitCode)
	run("ExecOutput", testExecOutput)
	run("ExecStdin", testExecStdin)
	run("ExecArguments", testExecArguments)
	run("ExecEnv", testExecEnv)
	run("ExecDir", testExecDir)
	run("ExecRefused", testExecRefused)
	run("ExecCutShort", testExecCutShort)
	run("FilesApart", testFilesApart)
	run("FilesEndWithDestroy", testFilesEndWithDestroy)
}

func runExecStopped(run runner) {
	run("ExecStopped", testExecStopped)
	run("FilesOutliveStop", testFilesOutliveStop)
}

func (s *suite) execer() driver.Execer {
	execer, ok := driver.As[driver.Execer](s.d)
	s.check(ok, "the ability to exec comes and goes")
	return execer
}

func (s *suite) exec(id driver.ID, cmd driver.Cmd) driver.Result {
	s.Helper()
	res, err := s.execer().Exec(s.ctx(), id, cmd)
	s.check(err == nil, "Exec of %q: %v", cmd.Argv, err)
	return res
}

func sh(script string) driver.Cmd { return driver.Cmd{Argv: []string{"sh", "-c", script}} }

// output runs a command and checks that it worked and what it wrote.
func (s *suite) output(id driver.ID, cmd driver.Cmd, want string) {
	s.Helper()
	res := s.exec(id, cmd)
	s.check(res.ExitCode == 0, "%q ends with %d: %s%s", cmd.Argv, res.ExitCode, res.Stdout, res.Stderr)
	s.check(string(res.Stdout) == want, "%q writes %.200q, not %.200q", cmd.Argv, res.Stdout, want)
}

func testExecExitCode(s *suite) {
	id := s.create(s.spec()).ID
	for _, code := range []int{0, 1, 2, 42, 126, 127, 255} {
		res := s.exec(id, sh(fmt.Sprintf("exit %d", code)))
		s.check(res.ExitCode == code, "exit %d is seen as %d", code, res.ExitCode)
	}
	res := s.exec(id, driver.Cmd{Argv: []string{"no-such-program-in-any-path"}})
	s.check(res.ExitCode == 127, "a program that is not there ends with %d, not 127", res.ExitCode)
	s.phase(id, driver.PhaseRunning)
}

func testExecOutput(s *suite) {
	id := s.create(s.spec()).ID
	res := s.exec(id, sh("echo to-out; echo to-err >&2"))
	if res.Merged {
		s.check(len(res.Stderr) == 0, "a merged result has %q on stderr", res.Stderr)
		s.check(strings.Contains(string(res.Stdout), "to-out\n"), "stdout has %q", res.Stdout)
		s.check(strings.Contains(string(res.Stdout), "to-err\n"), "stdout has %q, merged", res.Stdout)
		return
	}
	s.check(string(res.Stdout) == "to-out\n", "stdout is %q", res.Stdout)
	s.check(string(res.Stderr) == "to-err\n", "stderr is %q", res.Stderr)
}

func testExecStdin(s *suite) {
	id := s.create(s.spec()).ID
	long := strings.Repeat("Ünïcødé 🚢 'quoted' $HOME\n", 4096)
	for _, in := range []string{"", "no newline at the end", long} {
		s.output(id, driver.Cmd{Argv: []string{"cat"}, Stdin: []byte(in)}, in)
	}
	s.output(id, driver.Cmd{Argv: []string{"cat"}}, "")
}

// Arguments reach the program as they are: no shell has been at them.
func testExecArguments(s *suite) {
	id := s.create(s.spec()).ID
	args := []string{"", "two words", "$HOME", "*", `"quoted" 'twice'`, "a\nb", "`id`", "; exit 3", "é"}
	argv := append([]string{"sh", "-c", `for a; do printf '<%s>' "$a"; done`, "sh"}, args...)
	s.output(id, driver.Cmd{Argv: argv}, "<"+strings.Join(args, "><")+">")
}

func testExecEnv(s *suite) {
	spec := s.spec()
	spec.Env = map[string]string{"OF_SPEC": "spec's own $HOME\n", "OF_BOTH": "spec's"}
	id := s.create(spec).ID
	cmd := sh(`printf '%s|%s|%s' "$OF_SPEC" "$OF_BOTH" "$OF_CMD"`)
	s.output(id, cmd, "spec's own $HOME\n|spec's|")
	cmd.Env = map[string]string{"OF_BOTH": "command's", "OF_CMD": "a=b 'c'"}
	s.output(id, cmd, "spec's own $HOME\n|command's|a=b 'c'")
}

func testExecDir(s *suite) {
	id := s.create(s.spec()).ID
	for _, dir := range []string{"/", "/tmp"} {
		cmd := sh("pwd")
		cmd.Dir = dir
		s.output(id, cmd, dir+"\n")
	}
	s.output(id, sh("echo here >mark && cat mark"), "here\n")
	s.output(id, driver.Cmd{Argv: []string{"cat", "mark"}}, "here\n")
}

func testExecRefused(s *suite) {
	st := s.create(s.spec())
	_, err := s.execer().Exec(s.ctx(), st.ID, driver.Cmd{})
	s.is(err, driver.ErrInvalid, "Exec of nothing")
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		_, err := s.execer().Exec(s.ctx(), id, sh("true"))
		s.is(err, driver.ErrNotFound, "Exec where nothing is")
	}
}

func testExecCutShort(s *suite) {
	id := s.create(s.spec()).ID
	ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := s.execer().Exec(ctx, id, sh(fmt.Sprintf("sleep %d", 60+int(s.h.Patience.Seconds()))))
	s.check(err != nil, "Exec under a context that ended has no error")
	s.check(time.Since(begun) < s.h.Patience, "Exec goes on for %v after its context ended", time.Since(begun))
	s.output(id, sh("echo on"), "on\n")
}

func testFilesApart(s *suite) {
	a, b := s.create(s.spec()).ID, s.create(s.spec()).ID
	s.output(a, sh("echo a >mark"), "")
	s.output(b, sh("cat mark 2>/dev/null || echo none"), "none\n")
}

func testFilesEndWithDestroy(s *suite) {
	spec := s.spec()
	old := s.create(spec).ID
	s.output(old, sh("echo old >mark"), "")
	s.destroy(old)
	s.gone(old)
	s.output(s.create(spec).ID, sh("cat mark 2>/dev/null || echo none"), "none\n")
}

func testExecStopped(s *suite) {
	id := s.create(s.spec()).ID
	s.stop(id)
	s.phase(id, driver.PhaseStopped)
	_, err := s.execer().Exec(s.ctx(), id, sh("true"))
	s.is(err, driver.ErrNotRunning, "Exec in a stopped instance")
	s.start(id)
	s.output(id, sh("echo again"), "again\n")
}

func testExecFrozen(s *suite) {
	id := s.create(s.spec()).ID
	s.freeze(id)
	s.phase(id, driver.PhaseFrozen)
	_, err := s.execer().Exec(s.ctx(), id, sh("true"))
	s.is(err, driver.ErrNotRunning, "Exec in a frozen instance")
	s.thaw(id)
	s.output(id, sh("echo again"), "again\n")
}

func testFilesOutliveStop(s *suite) {
	spec := s.spec()
	spec.Env = map[string]string{"KEPT": "yes"}
	id := s.create(spec).ID
	s.output(id, sh("echo kept >mark"), "")
	s.stop(id)
	s.start(id)
	s.output(id, sh(`cat mark; echo "$KEPT"`), "kept\nyes\n")
}
