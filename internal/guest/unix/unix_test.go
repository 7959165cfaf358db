package unix

import (
	"bytes"
	"testing"
	"unsafe"

	sys "golang.org/x/sys/unix"
)

func TestTypesAreTheKernels(t *testing.T) {
	for name, sizes := range map[string][2]uintptr{
		"Winsize":       {unsafe.Sizeof(Winsize{}), unsafe.Sizeof(sys.Winsize{})},
		"Ifreq":         {unsafe.Sizeof(Ifreq{}), unsafe.Sizeof(sys.Ifreq{})},
		"CapUserHeader": {unsafe.Sizeof(CapUserHeader{}), unsafe.Sizeof(sys.CapUserHeader{})},
		"CapUserData":   {unsafe.Sizeof(CapUserData{}), unsafe.Sizeof(sys.CapUserData{})},
		"MountAttr":     {unsafe.Sizeof(MountAttr{}), unsafe.Sizeof(sys.MountAttr{})},
		"OpenHow":       {unsafe.Sizeof(OpenHow{}), unsafe.Sizeof(sys.OpenHow{})},
	} {
		if sizes[0] != sizes[1] {
			t.Errorf("%s has %d bytes, not %d", name, sizes[1], sizes[0])
		}
	}
}

func TestFiles(t *testing.T) {
	dir, err := Open(t.TempDir(), O_PATH|O_DIRECTORY|O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(dir)
	if err := Symlinkat("target", dir, "link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Openat2(dir, "link", &OpenHow{Flags: O_PATH | O_CLOEXEC, Resolve: RESOLVE_NO_SYMLINKS}); err != ELOOP {
		t.Errorf("open a link: %v", err)
	}
	fd, err := Openat2(dir, "file", &OpenHow{Flags: O_RDWR | O_CREAT | O_CLOEXEC, Mode: 0o600, Resolve: RESOLVE_BENEATH})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fd)
	if n, err := Writev(fd, [][]byte{[]byte("one "), []byte("two")}); err != nil || n != 7 {
		t.Errorf("%d bytes written, %v", n, err)
	}
	got := make([]byte, 10)
	if n, err := Pread(fd, got, 0); err != nil || !bytes.Equal(got[:n], []byte("one two")) {
		t.Errorf("%q, %v", got[:n], err)
	}
	if _, err := Writev(fd, make([][]byte, 9)); err != EINVAL {
		t.Errorf("too many buffers: %v", err)
	}
	if err := Unlinkat(dir, "link", 0); err != nil {
		t.Error(err)
	}
	if err := Unlinkat(dir, "link", 0); err != ENOENT {
		t.Errorf("unlink again: %v", err)
	}
	if flags, err := FcntlInt(uintptr(fd), F_GETFD, 0); err != nil || flags&FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}

// A name with a zero byte reaches no system call.
func TestZeroBytes(t *testing.T) {
	for what, err := range map[string]error{
		"unlinkat":   Unlinkat(AT_FDCWD, "\x00", 0),
		"symlinkat":  Symlinkat("\x00", AT_FDCWD, "x"),
		"symlinkat2": Symlinkat("x", AT_FDCWD, "\x00"),
		"flag":       FsconfigSetFlag(-1, "\x00"),
		"string":     FsconfigSetString(-1, "\x00", ""),
		"string2":    FsconfigSetString(-1, "", "\x00"),
		"move":       MoveMount(-1, "\x00", -1, "", 0),
		"move2":      MoveMount(-1, "", -1, "\x00", 0),
		"attributes": MountSetattr(-1, "\x00", 0, new(MountAttr)),
		"memfd":      second(MemfdCreate("\x00", 0)),
		"fsopen":     second(Fsopen("\x00", 0)),
		"tree":       second(OpenTree(-1, "\x00", 0)),
		"openat2":    second(Openat2(-1, "\x00", new(OpenHow))),
	} {
		if err != EINVAL {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second(_ int, err error) error { return err }

// Descriptors that are none are refused by the kernel: the calls arrive.
func TestCallsArrive(t *testing.T) {
	for what, err := range map[string]error{
		"flag": FsconfigSetFlag(-1, "x"), "string": FsconfigSetString(-1, "x", "y"), "create": FsconfigCreate(-1),
	} {
		if err == nil {
			t.Errorf("%s: done", what)
		}
	}
	for what, err := range map[string]error{
		"mount": second(Fsmount(-1, 0, 0)), "move": MoveMount(-1, "x", -1, "y", 0), "tree": second(OpenTree(-1, "x", 0)),
		"attributes": MountSetattr(-1, "x", 0, &MountAttr{Attr_set: MOUNT_ATTR_RDONLY}), "size": IoctlSetWinsize(-1, TIOCSWINSZ, new(Winsize)),
		"pointer": IoctlSetPointerInt(-1, TIOCSPTLCK, 0), "fcntl": second(FcntlInt(^uintptr(0), F_GETFD, 0)),
	} {
		if err != EBADF && err != EPERM {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := Prctl(-1, 0, 0, 0, 0); err != EINVAL {
		t.Errorf("prctl: %v", err)
	}
}

func TestInterfaces(t *testing.T) {
	if _, err := NewIfreq("a name that is too long"); err != EINVAL {
		t.Errorf("too long: %v", err)
	}
	lo, err := NewIfreq("no-such")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(IFF_UP)
	fd, err := Socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fd)
	if err := IoctlIfreq(fd, SIOCSIFFLAGS, lo); err == nil {
		t.Error("an interface that is not there is up")
	}
}

func TestMemory(t *testing.T) {
	fd, err := MemfdCreate("x", MFD_CLOEXEC|MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fd)
	if _, err := FcntlInt(uintptr(fd), F_ADD_SEALS, F_SEAL_WRITE); err != nil {
		t.Error(err)
	}
	if _, err := Write(fd, []byte("x")); err != EPERM {
		t.Errorf("write to a sealed file: %v", err)
	}
}
