package wire

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/guest/unix"
)

// Conn is one end of a SEQPACKET connection. One goroutine may receive while others send; Close waits
// for neither, so the owner sees to it that nobody does either of them any more.
type Conn struct {
	fd     int
	file   *os.File // registered with the poller; closes fd
	raw    syscall.RawConn
	closed atomic.Bool
}

// NewConn takes over a connected or listening socket.
func NewConn(fd int) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "guest")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Conn{fd: fd, file: file, raw: raw}, nil
}

// Pair is a connection with itself, such as the setup line.
func Pair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "guest"), os.NewFile(uintptr(fds[1]), "guest"), nil
}

// Accept waits for the next connection to a listening socket.
func (c *Conn) Accept() (*Conn, error) {
	var fd int
	var err error
	if waited := c.raw.Read(func(uintptr) bool {
		fd, err = accept(c.fd)
		return err != unix.EAGAIN
	}); waited != nil {
		return nil, c.ended(waited)
	}
	if err != nil {
		return nil, os.NewSyscallError("accept4", err)
	}
	return NewConn(fd)
}

func accept(listener int) (fd int, err error) {
	for {
		fd, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != unix.EINTR && err != unix.ECONNABORTED {
			return fd, err
		}
	}
}

// Kinds of packets: the body follows, or is in the first descriptor.
const (
	packetInline = 0
	packetFile   = 1
)

// Packet starts a message in b; append the body to it and give it to Send.
func Packet(b []byte) []byte { return append(b[:0], packetInline) }

// Send sends a message that Packet started, with descriptors, which stay the caller's.
func (c *Conn) Send(packet []byte, files ...int) error {
	if len(packet) > 1+MaxBody || len(files) > MaxFiles {
		return unix.EMSGSIZE
	}
	if len(packet) <= packetSize {
		return c.send(packet, files)
	}
	fd, err := sealed(packet[1:])
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return c.send([]byte{packetFile}, append([]int{fd}, files...))
}

func (c *Conn) send(packet []byte, files []int) error {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	err := sendmsg(c.fd, packet, rights)
	if err == unix.EAGAIN {
		if waited := c.raw.Write(func(uintptr) bool {
			err = sendmsg(c.fd, packet, rights)
			return err != unix.EAGAIN
		}); waited != nil {
			return c.ended(waited)
		}
	}
	return os.NewSyscallError("sendmsg", err)
}

// sendmsg does not wait.
func sendmsg(fd int, packet, rights []byte) error {
	for {
		_, err := unix.SendmsgN(fd, packet, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err
		}
	}
}

// Recv waits for a message. The body lies in buf (RecvBuffer long) where it fits; the descriptors are
// the caller's to close, and close on exec. io.EOF says that the other side is gone.
func (c *Conn) Recv(buf []byte) (body []byte, files []int, err error) {
	body, files, err = c.TryRecv(buf)
	if err != unix.EAGAIN {
		return body, files, err
	}
	if waited := c.raw.Read(func(uintptr) bool {
		body, files, err = c.TryRecv(buf)
		return err != unix.EAGAIN
	}); waited != nil {
		return nil, nil, c.ended(waited)
	}
	return body, files, err
}

// TryRecv is Recv without waiting: EAGAIN says that there is no message yet. Who shares one buffer among
// connections calls it when Wait returned.
func (c *Conn) TryRecv(buf []byte) (body []byte, files []int, err error) {
	packet, control := buf[:packetSize], buf[packetSize:RecvBuffer]
	n, controlled, flags, err := recvmsg(c.fd, packet, control)
	if err == unix.EAGAIN {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("recvmsg", err)
	}
	if controlled > 0 {
		files = rights(control[:controlled])
	}
	if n == 0 && len(files) == 0 {
		return nil, nil, io.EOF
	}
	body, files, err = open(packet[:n], files, flags)
	if err != nil {
		CloseAll(files)
		return nil, nil, err
	}
	return body, files, nil
}

// recvmsg does not wait. The kernel looks for a message first and then whether the other side is gone; one
// that was sent and followed by a close in between looks like an end, and is there at a second look.
func recvmsg(fd int, buf, control []byte) (n, controlled, flags int, err error) {
	for ended := false; ; {
		n, controlled, flags, _, err = unix.Recvmsg(fd, buf, control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
		case err == nil && n == 0 && controlled == 0 && !ended:
			ended = true
		default:
			return n, controlled, flags, err
		}
	}
}

// open finds the body of a packet, and leaves the descriptors that belong to it.
func open(packet []byte, files []int, flags int) (body []byte, rest []int, err error) {
	switch {
	case len(packet) == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return nil, files, ErrMalformed
	case packet[0] == packetInline:
		return packet[1:], files, nil
	case packet[0] == packetFile && len(packet) == 1 && len(files) > 0:
		body, err := unseal(files[0])
		unix.Close(files[0])
		return body, files[1:], err
	default:
		return nil, files, ErrMalformed
	}
}

// rights are the descriptors in a control message.
func rights(control []byte) []int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	var files []int
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			files = append(files, fds...)
		}
	}
	return files
}

// CloseAll closes descriptors.
func CloseAll(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

// Wait waits until there is a message, or the other side is gone.
func (c *Conn) Wait() error {
	var peek [1]byte
	return c.ended(c.raw.Read(func(uintptr) bool {
		_, _, err := unix.Recvfrom(c.fd, peek[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	}))
}

// ended names the reason why waiting ended, which the poller does not export.
func (c *Conn) ended(err error) error {
	if err != nil && c.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// FD is the socket, which stays c's.
func (c *Conn) FD() int { return c.fd }

// SetReadDeadline bounds Recv, Wait and Accept.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// CloseWrite tells the other side that nothing more will be sent.
func (c *Conn) CloseWrite() error { return unix.Shutdown(c.fd, unix.SHUT_WR) }

// Close closes the socket.
func (c *Conn) Close() error {
	c.closed.Store(true)
	return c.file.Close()
}
