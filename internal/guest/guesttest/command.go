package guesttest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

var commandCases = []testCase{
	{name: "ExitCodes", test: exitCodes},
	{name: "StreamsAreApart", test: streamsAreApart},
	{name: "OneWriterKeepsTheOrder", test: oneWriterKeepsTheOrder},
	{name: "CommandsThatCannotRun", test: commandsThatCannotRun},
	{name: "WorkingDirectory", test: workingDirectory},
	{name: "EnvironmentIsExact", test: environmentIsExact},
	{name: "LongArgumentsAndEnvironment", test: longArguments},
	{name: "LargeInputAndOutput", test: largeInputAndOutput},
	{name: "InputNobodyReads", test: inputNobodyReads},
	{name: "DevStdoutCanBeOpened", test: devStdout},
	{name: "FiftyAtOnce", test: fiftyCommandsAtOnce},
	{name: "NonsenseIsInvalid", test: nonsenseIsInvalid},
}

func exitCodes(t *testing.T, in instance) {
	for line, code := range map[string]int{
		"true": 0, "exit 1": 1, "exit 42": 42, "exit 255": 255,
		"kill -9 $$": 137, "kill -TERM $$": 143, "exit 124": 124,
	} {
		before := time.Now()
		r := in.run(t, shell(line))
		if r.Code != code || (code > 128 && code < 200) != (r.Signal != 0) {
			t.Errorf("%q: exit %+v, want code %d", line, r.Exit, code)
		}
		if r.Lost || r.Reason != "" || r.MaxRSS < 1<<10 || r.CPU < 0 {
			t.Errorf("%q: exit %+v", line, r.Exit)
		}
		if r.At.Before(before.Add(-time.Minute)) || r.At.After(time.Now().Add(time.Minute)) {
			t.Errorf("%q ended at %v, not about now", line, r.At)
		}
	}
}

func streamsAreApart(t *testing.T, in instance) {
	r := in.run(t, shell("echo to out; echo to err >&2"))
	if r.out != "to out\n" || r.err != "to err\n" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	if exit, err := in.Run(t.Context(), shell("echo nobody hears; cat"), guest.Stdio{}); err != nil || exit.Code != 0 {
		t.Errorf("without streams: exit %+v, error %v", exit, err)
	}
}

func oneWriterKeepsTheOrder(t *testing.T, in instance) {
	var both bytes.Buffer
	_, err := in.Run(t.Context(), shell("for i in 1 2 3 4 5; do echo out; echo err >&2; done"), guest.Stdio{Stdout: &both, Stderr: &both})
	if err != nil || both.String() != strings.Repeat("out\nerr\n", 5) {
		t.Errorf("error %v, output %q", err, &both)
	}
}

func commandsThatCannotRun(t *testing.T, in instance) {
	in.sh(t, "mkdir dir; echo text > plain; printf '\\0\\1\\2nonsense' > odd; chmod +x odd; echo '#!/nowhere' > lost; chmod +x lost; ln -s gone link")
	for name, code := range map[string]int{
		"no-such-command": guest.ExitNotFound, "/no/such/file": guest.ExitNotFound, "./gone": guest.ExitNotFound,
		"./plain/file": guest.ExitNotFound, "./lost": guest.ExitNotFound, "./link": guest.ExitNotFound,
		"./plain": guest.ExitCannotRun, "./dir": guest.ExitCannotRun, "./odd": guest.ExitCannotRun,
	} {
		r := in.run(t, guest.Cmd{Argv: []string{name}})
		if r.Code != code || r.Reason == "" || r.out+r.err != "" {
			t.Errorf("%s: exit %d %q, want %d and a reason", name, r.Code, r.Reason, code)
		}
		p := in.start(t, strings.Trim(strings.ReplaceAll(name, "/", "-"), ".-"), guest.Cmd{Argv: []string{name}})
		if w := collect(t, p, 0); w.exit.Code != code || w.exit.Reason == "" || w.all != "" {
			t.Errorf("start %s: exit %+v, want %d and a reason", name, w.exit, code)
		}
	}
	// A file that cannot be executed is skipped if a later directory of PATH has an executable one.
	in.sh(t, "mkdir a b; echo > a/tool; printf '#!/bin/sh\\necho found' > b/tool; chmod +x b/tool")
	here := strings.TrimSpace(in.sh(t, "pwd"))
	r := in.run(t, guest.Cmd{Argv: []string{"tool"}, Env: []string{"PATH=" + here + "/a:" + here + "/b"}})
	if r.out != "found\n" {
		t.Errorf("found by PATH: exit %+v, output %q", r.Exit, r.out)
	}
	if r := in.run(t, guest.Cmd{Argv: []string{"tool"}, Env: []string{"PATH=" + here + "/a"}}); r.Code != guest.ExitCannotRun {
		t.Errorf("only one that cannot be executed in PATH: exit %+v", r.Exit)
	}
}

func workingDirectory(t *testing.T, in instance) {
	home := strings.TrimSpace(in.sh(t, "pwd"))
	if in.harness.Isolated && home != guest.Workspace {
		t.Errorf("commands run in %s", home)
	}
	in.sh(t, "mkdir -p sub/deep; echo > file")
	for dir, want := range map[string]string{"": home, "sub": home + "/sub", home + "/sub/deep": home + "/sub/deep", "/": "/"} {
		if r := in.run(t, guest.Cmd{Argv: []string{"pwd"}, Dir: dir}); r.out != want+"\n" {
			t.Errorf("in %q: %q, exit %+v", dir, r.out, r.Exit)
		}
	}
	for _, dir := range []string{"missing", "/missing", "file"} {
		r := in.run(t, guest.Cmd{Argv: []string{"pwd"}, Dir: dir})
		if r.Code != guest.ExitCannotRun || !strings.Contains(r.Reason, dir) {
			t.Errorf("in %q: exit %d %q, want %d and a reason", dir, r.Code, r.Reason, guest.ExitCannotRun)
		}
	}
}

func environmentIsExact(t *testing.T, in instance) {
	given := []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "USER=somebody", "A=1", "EMPTY=", "ODD=a b\tc\nd=e", "A=2"}
	r := in.run(t, guest.Cmd{Argv: []string{"env", "-0"}, Env: given})
	if got := strings.Split(strings.TrimSuffix(r.out, "\x00"), "\x00"); !slices.Equal(got, given) {
		t.Errorf("environment %q, want %q", got, given)
	}
	r = in.run(t, guest.Cmd{Argv: []string{"env"}})
	var names []string
	for line := range strings.Lines(r.out) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"HOME", "PATH", "USER"}) {
		t.Errorf("with none given there are %q", names)
	}
}

func longArguments(t *testing.T, in instance) {
	long := strings.Repeat("x", 100<<10)
	cmd := guest.Cmd{
		Argv: []string{"sh", "-c", `printf %s "$*" | wc -c; printf %s "$ONE$TWO$THREE" | wc -c`, "sh", long, long, long},
		Env:  []string{"ONE=" + long, "TWO=" + long, "THREE=" + long},
	}
	// cmd.Env has no PATH: the helper adds the default.
	if r := in.run(t, cmd); strings.Join(strings.Fields(r.out), " ") != fmt.Sprint(3*len(long)+2, " ", 3*len(long)) {
		t.Errorf("exit %+v, output %q, stderr %q", r.Exit, r.out, r.err)
	}
	cmd.Argv = append(cmd.Argv, strings.Repeat("y", 1<<20))
	if r := in.run(t, cmd); r.Code != guest.ExitCannotRun || r.Reason == "" {
		t.Errorf("an argument longer than the kernel takes: exit %+v", r.Exit)
	}
	_, err := in.Run(t.Context(), guest.Cmd{Argv: []string{"true", strings.Repeat("z", 64<<20)}}, guest.Stdio{})
	want(t, "an argument longer than a message", err, guest.ErrInvalid)
}

func largeInputAndOutput(t *testing.T, in instance) {
	input := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19)
	var output bytes.Buffer
	ctx, cancel := contextFor(patience)
	defer cancel()
	exit, err := in.Run(ctx, guest.Cmd{Argv: []string{"cat"}}, guest.Stdio{Stdin: bytes.NewReader(input), Stdout: &output})
	if err != nil || exit.Code != 0 || !bytes.Equal(output.Bytes(), input) {
		t.Errorf("error %v, exit %+v, %d bytes of %d", err, exit, output.Len(), len(input))
	}
}

// silent is a reader whose Read blocks for a long time.
type silent struct{ ended chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.ended
	return 0, io.EOF
}

func inputNobodyReads(t *testing.T, in instance) {
	ctx, cancel := contextFor(patience)
	defer cancel()
	exit, err := in.Run(ctx, shell("exit 5"), guest.Stdio{Stdin: bytes.NewReader(make([]byte, 1<<20))})
	if err != nil || exit.Code != 5 {
		t.Errorf("a command that does not read: error %v, exit %+v", err, exit)
	}
	s := silent{make(chan struct{})}
	defer close(s.ended)
	exit, err = in.Run(ctx, shell("exit 6"), guest.Stdio{Stdin: s})
	if err != nil || exit.Code != 6 {
		t.Errorf("a reader that does not end: error %v, exit %+v", err, exit)
	}
}

func devStdout(t *testing.T, in instance) {
	line := "echo one > /dev/stdout; echo two > /dev/stderr; : > /dev/stdout; echo three >> /dev/stdout"
	if r := in.run(t, shell(line)); r.Code != 0 || r.out != "one\nthree\n" || r.err != "two\n" {
		t.Errorf("run: exit %+v, stdout %q, stderr %q", r.Exit, r.out, r.err)
	}
	w := collect(t, in.start(t, "p", shell(line)), 0)
	if w.exit.Code != 0 || w.out != "one\nthree\n" || w.err != "two\n" {
		t.Errorf("start: exit %+v, stdout %q, stderr %q", w.exit, w.out, w.err)
	}
}

func fiftyCommandsAtOnce(t *testing.T, in instance) {
	ctx, cancel := contextFor(patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			var out bytes.Buffer
			exit, err := in.Run(ctx, shell(fmt.Sprintf("echo %d; exit %d", i, i)), guest.Stdio{Stdout: &out})
			if err != nil || exit.Code != i || out.String() != fmt.Sprintln(i) {
				t.Errorf("command %d: error %v, exit %+v, output %q", i, err, exit, &out)
			}
		})
	}
	wg.Wait()
}

func nonsenseIsInvalid(t *testing.T, in instance) {
	for name, cmd := range map[string]guest.Cmd{
		"no command":            {},
		"an empty name":         {Argv: []string{""}},
		"a zero byte":           {Argv: []string{"echo", "a\x00b"}},
		"a zero byte in env":    {Argv: []string{"echo"}, Env: []string{"A=\x00"}},
		"a zero byte in dir":    {Argv: []string{"echo"}, Dir: "/\x00"},
		"a user nobody knows":   {Argv: []string{"id"}, User: "nobody-we-know"},
		"less than nothing":     {Argv: []string{"id"}, Keep: -1},
		"root without a second": {Argv: []string{"id"}, User: guest.Root},
	} {
		if cmd.User == guest.Root && in.harness.Isolated && !in.harness.Single {
			continue
		}
		_, err := in.Run(t.Context(), cmd, guest.Stdio{})
		want(t, "run "+name, err, guest.ErrInvalid)
		want(t, "start "+name, in.Start(t.Context(), "p", cmd), guest.ErrInvalid)
	}
	for _, id := range []string{"", ".", "..", "a/b", "../a", "A", "a_b", strings.Repeat("a", 65)} {
		want(t, "start as "+id, in.Start(t.Context(), id, shell("true")), guest.ErrInvalid)
		_, err := in.Process(id).Status(t.Context())
		want(t, "status of "+id, err, guest.ErrNoProcess)
		for _, err := range in.Process(id).Output(t.Context(), 0) {
			want(t, "output of "+id, err, guest.ErrNoProcess)
		}
	}
}
