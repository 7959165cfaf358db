package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a connection with itself.
func pair(t *testing.T) (a, b *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return take(t, fds[0]), take(t, fds[1])
}

func take(t *testing.T, fd int) *Conn {
	t.Helper()
	c, err := NewConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func message(body []byte) []byte { return append(Packet(nil), body...) }

func TestBodiesOfAnyLengthArrive(t *testing.T) {
	a, b := pair(t)
	for _, n := range []int{0, 1, MaxInline - 1, MaxInline, MaxInline + 1, MaxBody} {
		body := bytes.Repeat([]byte{7}, n)
		if err := a.Send(message(body)); err != nil {
			t.Fatalf("send %d bytes: %v", n, err)
		}
		got, files, err := b.Recv(make([]byte, RecvBuffer))
		if err != nil || len(files) != 0 || !bytes.Equal(got, body) {
			t.Errorf("%d bytes sent, %d received, %d descriptors, error %v", n, len(got), len(files), err)
		}
	}
	if err := a.Send(message(make([]byte, MaxBody+1))); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("too long: %v", err)
	}
	if err := a.Send(message(nil), make([]int, MaxFiles+1)...); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("too many descriptors: %v", err)
	}
}

func TestDescriptorsArriveInTheirOrder(t *testing.T) {
	a, b := pair(t)
	for _, size := range []int{10, MaxInline + 10} {
		var sent []int
		for range 3 {
			fd, err := unix.MemfdCreate("x", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Write(fd, []byte{byte(len(sent))}); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, fd)
		}
		if err := a.Send(message(make([]byte, size)), sent...); err != nil {
			t.Fatal(err)
		}
		CloseAll(sent)
		body, files, err := b.Recv(make([]byte, RecvBuffer))
		if err != nil || len(body) != size || len(files) != 3 {
			t.Fatalf("%d bytes, %d descriptors, error %v", len(body), len(files), err)
		}
		for i, fd := range files {
			got := make([]byte, 1)
			if _, err := unix.Pread(fd, got, 0); err != nil || int(got[0]) != i {
				t.Errorf("descriptor %d is number %d, error %v", i, got[0], err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d stays open on exec, error %v", i, err)
			}
		}
		CloseAll(files)
	}
}

func TestRecvWaits(t *testing.T) {
	a, b := pair(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Wait(); err != nil {
			t.Error(err)
		}
		if body, _, err := b.Recv(make([]byte, RecvBuffer)); err != nil || string(body) != "late" {
			t.Errorf("%q, %v", body, err)
		}
		if _, _, err := b.Recv(make([]byte, RecvBuffer)); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	})
	if err := a.Send(message([]byte("late"))); err != nil {
		t.Error(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	// The other direction is still there.
	if err := b.Send(message([]byte("back"))); err != nil {
		t.Error(err)
	}
	if body, _, err := a.Recv(make([]byte, RecvBuffer)); err != nil || string(body) != "back" {
		t.Errorf("%q, %v", body, err)
	}
	if err := a.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Recv(make([]byte, RecvBuffer)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
}

func TestSendWaitsForAReader(t *testing.T) {
	a, b := pair(t)
	const messages = 200
	var wg sync.WaitGroup
	wg.Go(func() {
		for range messages {
			if err := a.Send(message(make([]byte, MaxInline))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	buf := make([]byte, RecvBuffer)
	for range messages {
		if body, _, err := b.Recv(buf); err != nil || len(body) != MaxInline {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
	}
	wg.Wait()
	b.Close()
	if err := a.Send(message(nil)); !errors.Is(err, unix.EPIPE) {
		t.Errorf("with nobody there: %v", err)
	}
}

// What is no message is refused, and the descriptors that came with it are closed.
func TestForeignPackets(t *testing.T) {
	a, b := pair(t)
	unsealed, err := unix.MemfdCreate("x", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(unsealed)
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	huge, err := unix.MemfdCreate("x", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(huge)
	if err := unix.Ftruncate(huge, MaxBody+1); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(huge), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	for name, p := range map[string]struct {
		packet []byte
		files  []int
	}{
		"another kind":              {[]byte{9}, nil},
		"a file that is not there":  {[]byte{packetFile}, nil},
		"a file that can change":    {[]byte{packetFile}, []int{unsealed, null}},
		"a file that is no file":    {[]byte{packetFile}, []int{null}},
		"a file that is too long":   {[]byte{packetFile}, []int{huge}},
		"a packet that is too long": {make([]byte, RecvBuffer+1), []int{null}},
	} {
		if err := a.send(p.packet, p.files); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if body, files, err := b.Recv(make([]byte, RecvBuffer)); err != ErrMalformed {
			t.Errorf("%s: %q, %d descriptors, error %v", name, body, len(files), err)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// A message that is followed by a close at once arrives, however the two meet a reader that does not wait.
func TestTheLastMessageArrives(t *testing.T) {
	buf := make([]byte, RecvBuffer)
	last := message([]byte("last"))
	for i := range 20_000 {
		a, b := pair(t)
		go func() {
			_ = a.Send(last)
			a.Close()
		}()
		body, _, err := b.TryRecv(buf)
		for err == unix.EAGAIN {
			body, _, err = b.TryRecv(buf)
		}
		if err != nil || string(body) != "last" {
			t.Fatalf("time %d: %q, %v", i, body, err)
		}
		b.Close()
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestAccept(t *testing.T) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	listener := take(t, fd)
	path := t.TempDir() + "/s"
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := take(t, client)
	if err := unix.Connect(client, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.Send(message([]byte("hi"))); err != nil {
		t.Fatal(err)
	}
	if body, _, err := c.Recv(make([]byte, RecvBuffer)); err != nil || string(body) != "hi" || c.FD() != client {
		t.Errorf("%q, %v", body, err)
	}
	if err := listener.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with nobody there: %v", err)
	}
	if err := listener.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error)
	go func() {
		_, err := listener.Accept()
		accepted <- err
	}()
	listener.Close()
	if err := <-accepted; !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := NewConn(-1); err == nil {
		t.Error("a connection of nothing")
	}
}

func TestPair(t *testing.T) {
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if n, err := b.Read(got); err != nil || n != 1 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
