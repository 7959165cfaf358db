package pid1

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

func TestStatOfAnyName(t *testing.T) {
	for line, want := range map[string]procStat{
		"7 (sh) S 1 7 5 0 -1 4194560":           {pid: 7, parent: 1, session: 5, state: 'S'},
		"7 (a) Z 9 9 9 (b) R 2 3 4 0 -1 419456": {pid: 7, parent: 2, session: 4, state: 'R'},
		"7 (new\nline) T 3 4 5 0":               {pid: 7, parent: 3, session: 5, state: 'T'},
	} {
		if got, ok := parseStat(7, line); !ok || got != want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "7 (sh)", "7 (sh) S x 7 5", "7 (sh) S 1 7 y"} {
		if got, ok := parseStat(7, line); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
	if p, ok := readStat(os.Getpid()); !ok || p.parent != os.Getppid() {
		t.Errorf("this process: %+v, %v", p, ok)
	}
	if _, ok := readStat(-1); ok {
		t.Error("there is a process -1")
	}
}

func TestPace(t *testing.T) {
	var p pace
	before := time.Now()
	for range 10 * paceBurst {
		p.wait(paceLarge)
	}
	large := time.Since(before)
	before = time.Now()
	for range paceBurst + 20 {
		p.wait(1)
	}
	if small := time.Since(before); small < 15*paceEvery || small < large/100 {
		t.Errorf("%d small pieces took %v, %d large ones %v", paceBurst+20, small, 10*paceBurst, large)
	}
}

func TestMappings(t *testing.T) {
	for line, want := range map[string]mapping{
		"00400000-00f06000 r-xp 00000000 fe:00 9981857      /usr/bin/berth":               {0x400000, 0xf06000, true},
		"00f06000-01a8e000 r--p 00b06000 fe:00 9981857      /usr/bin/berth":               {0xf06000, 0x1a8e000, true},
		"01a8e000-01b40000 rw-p 0168e000 fe:00 9981857      /usr/bin/berth":               {0x1a8e000, 0x1b40000, false},
		"7f6f4a10e000-7f6f4a110000 r-xp 00000000 00:00 0                          [vdso]": {0x7f6f4a10e000, 0x7f6f4a110000, false},
	} {
		if got, ok := parseMapping([]byte(line)); !ok || got != want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "Size:  712 kB", "abc", "abc-", "abc-def", "-def r--p", "abc-def r"} {
		if got, ok := parseMapping([]byte(line)); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
	for line, want := range map[string]bool{"Anonymous:   0 kB": true, "Anonymous:  60 kB": false, "Private:  0 kB": false, "Anon": false} {
		if isZero([]byte(line), "Anonymous:") != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

func TestLinesOfAnyLength(t *testing.T) {
	text := "one\n\n" + strings.Repeat("x", 3000) + "\n" + strings.Repeat("short\n", 1000) + "cut off"
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	lines(int(f.Fd()), func(line []byte) { got = append(got, string(line)) })
	if n := len(got); got[0] != "one" || got[1] != "" || got[2][0] != 'x' || n < 1002 || n > 1010 || got[n-1] != "short" {
		t.Errorf("%d lines, from %.20q to %.20q", n, got[0], got[n-1])
	}
}

// What runs here still does when its code was dropped.
func TestRest(t *testing.T) {
	i := newIdler()
	i.begin()
	i.end()
	for range collectMin {
		i.rest()
		i.served.Store(collectMin)
	}
	i.timer.Stop()
}

// What the helper was started with beside its own descriptors does not reach commands.
func TestCloseInherited(t *testing.T) {
	inherited, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ours)
	if err := CloseInherited(min(inherited, ours)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(inherited), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the inherited one: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(ours), unix.F_GETFD, 0); err != nil {
		t.Errorf("our own: %v", err)
	}
}

// Signals are handled by nothing or have the default. They are not ignored: that would be inherited.
func TestInert(t *testing.T) {
	var before, after [lastSignal + 1]disposition
	for sig := range lastSignal + 1 {
		before[sig] = dispositionOf(sig, nil)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	inert()
	for sig := range lastSignal + 1 {
		after[sig] = dispositionOf(sig, nil)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR2, realTime} {
		// It would end this process. This thread gets it, and at once: another one might get it only after the
		// handlers were put back.
		if err := unix.Tgkill(os.Getpid(), unix.Gettid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	for sig := range lastSignal + 1 {
		dispositionOf(sig, &before[sig])
	}
	nothing, _ := handlerOfNothing()
	for sig, want := range map[syscall.Signal]uintptr{
		syscall.SIGTERM: nothing, syscall.SIGUSR2: nothing, syscall.SIGHUP: nothing, realTime: nothing, realTime + 2: nothing,
		syscall.SIGQUIT: 0, syscall.SIGSEGV: 0, syscall.SIGCHLD: 0, syscall.SIGTSTP: 0,
	} {
		if after[sig].handler != want {
			t.Errorf("%v was handled by %#x and is by %#x, want %#x", sig, before[sig].handler, after[sig].handler, want)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGURG, realTime + 1} {
		if after[sig] != before[sig] {
			t.Errorf("%v, which Go itself needs, was changed", sig)
		}
	}
}

// dispositionOf is what the kernel does about a signal. It can be changed.
func dispositionOf(sig syscall.Signal, change *disposition) (was disposition) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(change)), uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was
}

func TestRefusalsAreShort(t *testing.T) {
	x := refusal(notFound, strings.Repeat("x", 10_000), unix.ENOENT)
	if len(x.Reason) > 1000 || !strings.HasSuffix(x.Reason, "command not found") {
		t.Errorf("reason %q", x.Reason)
	}
}

func TestUsers(t *testing.T) {
	s := &server{Options: Options{Workdir: "/", Home: "/home/agent"}}
	for _, root := range []bool{false, true} {
		c := wire.Cmd{Argv: []string{"sh"}, Root: root}
		cmd, exit := s.prepare(&c)
		if exit != nil {
			t.Fatal(exit.Reason)
		}
		want := uint32(agentID)
		if root {
			want = 0
		}
		if cred := cmd.sys.Credential; cred == nil || cred.Uid != want || cred.Gid != want || len(cred.Groups) != 0 || cred.NoSetGroups {
			t.Errorf("root %v: %+v", root, cred)
		}
		if s.owner(&c) != int(want) {
			t.Errorf("root %v: streams are of %d", root, s.owner(&c))
		}
	}
}
