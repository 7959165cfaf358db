package boot

import (
	"os"
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

// The program's own file is found, and nothing that can be written.
func TestMappedCode(t *testing.T) {
	code := mappedCode()
	if len(code) == 0 {
		t.Fatal("no code is mapped")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		for _, m := range code {
			if strings.HasPrefix(f[0], hex(m[0])+"-") && f[1][1] != '-' {
				t.Errorf("code that can be written: %s", line)
			}
		}
	}
	new(idler).rest()
	(&idler{code: code}).rest() // and what runs here still does
}

func hex(n uintptr) string {
	var digits []byte
	for ; n > 0; n >>= 4 {
		digits = append([]byte{"0123456789abcdef"[n&15]}, digits...)
	}
	return string(digits)
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

// Dispositions are put back to the default, not to be ignored: that would be inherited.
func TestInert(t *testing.T) {
	var before [32][4]uintptr
	for sig := range syscall.Signal(32) {
		before[sig] = disposition(sig, nil)
	}
	inert()
	var after [32][4]uintptr
	for sig := range syscall.Signal(32) {
		after[sig] = disposition(sig, nil)
		disposition(sig, &before[sig])
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGSEGV} {
		if before[sig][0] == 0 || after[sig][0] != 0 {
			t.Errorf("%v was handled by %#x and is by %#x", sig, before[sig][0], after[sig][0])
		}
	}
	if after[syscall.SIGCHLD] != before[syscall.SIGCHLD] || after[syscall.SIGURG] != before[syscall.SIGURG] {
		t.Error("what Go itself needs was changed")
	}
}

// disposition is what the kernel does about a signal, with the handler first. It can be changed.
func disposition(sig syscall.Signal, change *[4]uintptr) (was [4]uintptr) {
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
