package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// collect reads a stream to its end.
func (a *arena) collect(box, id string, after int64) (stdout, stderr []byte, exit api.ExecExit) {
	a.Helper()
	stream, err := a.Sandboxes.Attach(a.Context(), box, id, after)
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var out, errs bytes.Buffer
	if exit, err = stream.Copy(&out, &errs); err != nil {
		a.Fatal(err)
	}
	return out.Bytes(), errs.Bytes(), exit
}

// tape starts a line of shell text and collects all of its output.
func (a *arena) tape(id, user, line string) (stdout, stderr string, exit api.ExecExit) {
	a.Helper()
	stream := a.spawn("box", api.Exec{ExecID: id, Command: api.Shell(line), User: user})
	_ = stream.Close()
	out, errs, exit := a.collect("box", id, 0)
	return string(out), string(errs), exit
}

// What a process has written stays written: it has no way to what keeps its output.
func TestOutputCannotBeRewritten(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "")
	box := a.box("box", "")
	spool := filepath.Join(a.instanceDir(box.ID), "spool")
	for _, user := range []string{"agent", "root"} {
		for name, c := range map[string]struct{ line, out, err string }{
			"by name":        {"echo one; echo two > /dev/stdout; echo three >> /dev/stdout; echo four > /proc/self/fd/1; echo err > /dev/stderr", "one\ntwo\nthree\nfour\n", "err\n"},
			"truncated":      {"echo one; perl -e 'truncate(STDOUT, 0); seek(STDOUT, 0, 0); syswrite(STDOUT, qq(two\\n))'; : > /dev/stdout; echo three", "one\ntwo\nthree\n", ""},
			"read back":      {"echo one; timeout 1 head -c 3 < /dev/stdout; echo two", "", ""},
			"closed":         {"echo one; exec 1>&- 2>&-; sleep 0.1", "one\n", ""},
			"opened again":   {"exec 3>&1; exec 1>&-; exec 1>&3; echo one; exec 2>&1; echo two >&2", "one\ntwo\n", ""},
			"crossed":        {"echo one >&2; echo two 2>&1 1>&2; echo three", "two\nthree\n", "one\n"},
			"by descriptors": {"for f in /proc/self/fd/* /proc/$$/fd/*; do (: > $f); done 2>/dev/null; echo one", "one\n", ""},
		} {
			out, errs, exit := a.tape(strings.ReplaceAll(name, " ", "-")+"-"+user, user, c.line)
			if name == "read back" { // a pipe's own bytes may be taken back before they are kept, and nothing else
				if !strings.HasSuffix(out, "two\n") || exit.Lost {
					t.Errorf("%s as %s: %q, %q, %+v", name, user, out, errs, exit)
				}
				continue
			}
			if out != c.out || errs != c.err || exit.Lost {
				t.Errorf("%s as %s: %q, %q, %+v", name, user, out, errs, exit)
			}
		}
		if code, out := a.plain(nil, "", "list", spool); code != 0 || !strings.Contains(out, "truncated-agent") {
			t.Errorf("output is not where this test thinks it is: %q", out)
		}
		res := a.run("box", api.Exec{Command: []string{"/workspace/attacker", "list", spool}, User: user})
		if res.ExitCode != 1 {
			t.Errorf("as %s: %+v", user, res)
		}
	}
}

// A flood is cut off from behind, at a size that the host can bear, and says so; its end is kept.
func TestFloodOfOutputIsCapped(t *testing.T) {
	testkit.Proves(t, "E6")
	t.Parallel()
	a := newArena(t, "")
	box := a.box("box", "")
	const flood, keep = 100 << 20, 1 << 20
	stream := a.spawn("box", api.Exec{ExecID: "flood", Keep: keep, Command: api.Shell("head -c 104857600 /dev/zero; echo the end; exit 7")})
	_ = stream.Close()
	out, _, exit := a.collectRest("box", "flood")
	if !bytes.HasSuffix(out, []byte("\x00the end\n")) || exit.ExitCode != 7 || len(out) < keep/2 || len(out) > flood/4 {
		t.Errorf("%d bytes that end in %q, %+v", len(out), out[max(0, len(out)-20):], exit)
	}
	size := treeSize(t, filepath.Join(a.instanceDir(box.ID), "spool", "flood"))
	if size > 4*keep {
		t.Errorf("it takes %d bytes of the disk", size)
	}
	a.works("box", 1)
	attached, err := a.Sandboxes.Attach(t.Context(), "box", "flood", 1)
	if err == nil {
		_, err = attached.Next()
		_ = attached.Close()
	}
	if problem(err).Code != api.CodeOutputTrimmed {
		t.Errorf("from its beginning: %v", err)
	}
}

// The output of several processes that each ask for much to be kept is bounded by the limit of the sandbox's disk.
func TestOutputOfManyIsBoundedByTheDisk(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "\n[templates.small]\nextends = \"default\"\ndisk = \"64MiB\"\n")
	box := a.box("box", "small")
	if code, out := a.plain(nil, "", "print", "48"); code != 0 || len(out) != 48<<20 {
		t.Errorf("a plain process prints %d bytes, exit code %d, so this proves nothing", len(out), code)
	}
	for _, id := range []string{"one", "two", "three"} {
		stream := a.spawn("box", api.Exec{ExecID: id, Keep: 256 << 20, Command: api.Shell("/workspace/attacker print 48; sleep 600")})
		_ = stream.Close()
	}
	for _, id := range []string{"one", "two", "three"} {
		testkit.Eventually(t, patience, func() error {
			st, err := a.Sandboxes.ExecStatus(t.Context(), "box", id)
			if err == nil && st.End < 48<<20 {
				err = fmt.Errorf("it has written %d bytes", st.End)
			}
			return err
		})
	}
	if size := treeSize(t, filepath.Join(a.instanceDir(box.ID), "spool")); size > 32<<20 {
		t.Errorf("beside a disk of 64 MiB, their output takes %d bytes", size)
	}
	a.works("box", 1)
}

// collectRest reads what is left of a command's output once it has ended.
func (a *arena) collectRest(box, id string) (stdout, stderr []byte, exit api.ExecExit) {
	a.Helper()
	testkit.Eventually(a.T, patience, func() error {
		st, err := a.Sandboxes.ExecStatus(a.Context(), box, id)
		if err == nil && st.Running {
			err = errors.New("it runs")
		}
		return err
	})
	return a.collect(box, id, 0)
}

func treeSize(t *testing.T, root string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(root, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return size
}

// A command ends when its process does. What it left behind may neither keep its stream open nor write
// into it later.
func TestWhatACommandLeavesBehindDoesNotHoldItsOutput(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	out, _, exit := a.tape("parent", "", "(trap '' HUP TERM; setsid sh -c 'while :; do echo late; sleep 0.2; done' &) ; echo parent; exit 3")
	if !strings.HasPrefix(out, "parent\n") && !strings.Contains(out, "\nparent\n") || exit.ExitCode != 3 {
		t.Errorf("%q, %+v", out, exit)
	}
	again, _, exit := a.collect("box", "parent", 0)
	if string(again) != out || exit.ExitCode != 3 {
		t.Errorf("it changed after its end: %q", again)
	}
	res := a.run("box", api.Exec{Command: api.Shell("(setsid sh -c 'while :; do echo late; sleep 0.2; done' &) ; echo parent; exit 3")})
	if !strings.Contains(res.Stdout, "parent\n") || res.ExitCode != 3 {
		t.Errorf("%+v", res)
	}
	a.works("box", 1)
}
