package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
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
	run("OutputUnknown", testOutputUnknown)
	run("FilesApart", testFilesApart)
	run("FilesEndWithDestroy", testFilesEndWithDestroy)
}

func runExecStopped(run runner) {
	run("ExecStopped", testExecStopped)
	run("FilesOutliveStop", testFilesOutliveStop)
}

func (s *suite) guester() driver.Guester {
	guester, ok := driver.As[driver.Guester](s.d)
	s.check(ok, "the ability to reach a guest comes and goes")
	return guester
}

// guest connects to an instance's helper. The connection is closed at the end of the sub-test.
func (s *suite) guest(id driver.ID) guest.Conn {
	s.Helper()
	conn, err := s.guester().Guest(s.ctx(), id)
	s.check(err == nil, "Guest: %v", err)
	s.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.Errorf("close the guest: %v", err)
		}
	})
	return conn
}

// result is the result of a command.
type result struct {
	code        int
	out, errOut string
}

func (s *suite) exec(id driver.ID, cmd guest.Cmd, stdin string) result {
	s.Helper()
	var out, errOut bytes.Buffer
	std := guest.Stdio{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut}
	exit, err := s.guest(id).Run(s.ctx(), cmd, std)
	s.check(err == nil, "Run of %q: %v", cmd.Argv, err)
	return result{exit.Code, out.String(), errOut.String()}
}

func sh(script string) guest.Cmd { return guest.Cmd{Argv: []string{"sh", "-c", script}} }

// output runs a command and checks that it exits with 0 and writes want.
func (s *suite) output(id driver.ID, cmd guest.Cmd, want string) {
	s.Helper()
	s.echo(id, cmd, "", want)
}

// echo is like output for a command that reads stdin.
func (s *suite) echo(id driver.ID, cmd guest.Cmd, stdin, want string) {
	s.Helper()
	res := s.exec(id, cmd, stdin)
	s.check(res.code == 0, "%q ends with %d: %s%s", cmd.Argv, res.code, res.out, res.errOut)
	s.check(res.out == want, "%q writes %.200q, not %.200q", cmd.Argv, res.out, want)
}

func testExecExitCode(s *suite) {
	id := s.create(s.spec()).ID
	for _, code := range []int{0, 1, 2, 42, 126, 127, 255} {
		res := s.exec(id, sh(fmt.Sprintf("exit %d", code)), "")
		s.check(res.code == code, "exit %d is seen as %d", code, res.code)
	}
	res := s.exec(id, guest.Cmd{Argv: []string{"no-such-program-in-any-path"}}, "")
	s.check(res.code == guest.ExitNotFound, "a program that is not there ends with %d, not 127", res.code)
	s.phase(id, driver.PhaseRunning)
}

func testExecOutput(s *suite) {
	id := s.create(s.spec()).ID
	res := s.exec(id, sh("echo to-out; echo to-err >&2"), "")
	s.check(res.out == "to-out\n", "stdout is %q", res.out)
	s.check(res.errOut == "to-err\n", "stderr is %q", res.errOut)
}

func testExecStdin(s *suite) {
	id := s.create(s.spec()).ID
	long := strings.Repeat("Ünïcødé 🚢 'quoted' $HOME\n", 4096)
	for _, in := range []string{"", "no newline at the end", long} {
		s.echo(id, guest.Cmd{Argv: []string{"cat"}}, in, in)
	}
}

// Arguments reach the program unchanged: no shell interprets them.
func testExecArguments(s *suite) {
	id := s.create(s.spec()).ID
	args := []string{"", "two words", "$HOME", "*", `"quoted" 'twice'`, "a\nb", "`id`", "; exit 3", "é"}
	argv := append([]string{"sh", "-c", `for a; do printf '<%s>' "$a"; done`, "sh"}, args...)
	s.output(id, guest.Cmd{Argv: argv}, "<"+strings.Join(args, "><")+">")
}

// The environment applies to one command only.
func testExecEnv(s *suite) {
	id := s.create(s.spec()).ID
	cmd := sh(`printf '%s|%s' "$ONE" "$TWO"`)
	cmd.Env = []string{"ONE=its own $HOME\n", "TWO=a=b 'c'"}
	s.output(id, cmd, "its own $HOME\n|a=b 'c'")
	cmd.Env = nil
	s.output(id, cmd, "|")
}

func testExecDir(s *suite) {
	id := s.create(s.spec()).ID
	for _, dir := range []string{"/", "/tmp"} {
		cmd := sh("pwd")
		cmd.Dir = dir
		s.output(id, cmd, dir+"\n")
	}
	s.output(id, sh("echo here >mark && cat mark"), "here\n")
	s.output(id, guest.Cmd{Argv: []string{"cat", "mark"}}, "here\n")
}

func testExecRefused(s *suite) {
	st := s.create(s.spec())
	_, err := s.guest(st.ID).Run(s.ctx(), guest.Cmd{}, guest.Stdio{})
	s.is(err, guest.ErrInvalid, "Run of nothing")
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		_, err := s.guester().Guest(s.ctx(), id)
		s.is(err, driver.ErrNotFound, "Guest where nothing is")
	}
}

func testExecCutShort(s *suite) {
	id := s.create(s.spec()).ID
	conn := s.guest(id)
	ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := conn.Run(ctx, sh(fmt.Sprintf("sleep %d", 60+int(s.h.Patience.Seconds()))), guest.Stdio{})
	s.check(err != nil, "Run under a context that ended has no error")
	s.check(time.Since(begun) < s.h.Patience, "Run goes on for %v after its context ended", time.Since(begun))
	s.output(id, sh("echo on"), "on\n")
}

func testOutputUnknown(s *suite) {
	st := s.create(s.spec())
	s.is(s.outputErr(st.ID), guest.ErrNoProcess, "Output of a process nobody started")
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		s.is(s.outputErr(id), driver.ErrNotFound, "Output where nothing is")
	}
}

// outputErr returns the error at the end of the output of a process that does not exist.
func (s *suite) outputErr(id driver.ID) (last error) {
	for _, err := range s.guester().Output(s.ctx(), id, "nobody", 0) {
		last = err
	}
	return last
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
	_, err := s.guester().Guest(s.ctx(), id)
	s.is(err, driver.ErrNotRunning, "Guest of a stopped instance")
	s.start(id)
	s.output(id, sh("echo again"), "again\n")
}

func testExecFrozen(s *suite) {
	id := s.create(s.spec()).ID
	s.freeze(id)
	s.phase(id, driver.PhaseFrozen)
	_, err := s.guester().Guest(s.ctx(), id)
	s.is(err, driver.ErrNotRunning, "Guest of a frozen instance")
	s.thaw(id)
	s.output(id, sh("echo again"), "again\n")
}

func testFilesOutliveStop(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo kept >mark"), "")
	s.stop(id)
	s.start(id)
	s.output(id, sh("cat mark 2>/dev/null || echo none"), "kept\n")
}
