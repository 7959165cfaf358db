package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/guest/unix"
)

// Conn is one end of a SEQPACKET connection. One goroutine may receive while others send. No call may be in progress
// during Close, which does not wait for them.
type Conn struct {
	fd int

	mu     sync.Mutex
	file   *os.File // fd, registered with the poller; its Close closes fd. Nil until a call has to wait
	raw    syscall.RawConn
	closed bool
}

// NewConn returns a Conn that owns a connected or listening socket.
func NewConn(fd int) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Conn{fd: fd}, nil
}

// poll registers the socket with the poller if it is not registered yet. It is called only when a call has to wait:
// most messages are sent and received without waiting, and registration would slow them down.
func (c *Conn) poll() (*os.File, syscall.RawConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, os.ErrClosed
	case c.file != nil:
		return c.file, c.raw, nil
	}
	c.file = os.NewFile(uintptr(c.fd), "guest")
	var err error
	c.raw, err = c.file.SyscallConn()
	return c.file, c.raw, err
}

// await calls try each time the descriptor is ready, until try returns another result than EAGAIN.
func (c *Conn) await(on func(syscall.RawConn, func(uintptr) bool) error, try func() error) error {
	_, raw, err := c.poll()
	if err != nil {
		return err
	}
	var tried error
	if err := on(raw, func(uintptr) bool {
		tried = try()
		return tried != unix.EAGAIN
	}); err != nil {
		return c.ended(err)
	}
	return tried
}

// Pair returns two sockets that are connected with each other, for example for the setup of a helper.
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
	err := c.await(syscall.RawConn.Read, func() (err error) {
		fd, err = accept(c.fd)
		return err
	})
	if err != nil {
		return nil, err
	}
	return NewConn(fd)
}

func accept(listener int) (fd int, err error) {
	for {
		fd, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch err {
		case nil, unix.EAGAIN:
			return fd, err
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return -1, os.NewSyscallError("accept4", err)
		}
	}
}

// Kinds of packets. The first byte of a packet is its kind.
const (
	packetInline = 0 // the body follows
	packetFile   = 1 // the body is in the file of the first descriptor
)

// Packet starts a message in b. The caller appends the body and passes the result to Send.
func Packet(b []byte) []byte { return append(b[:0], packetInline) }

// Send sends a message that Packet started, with descriptors. It does not close the descriptors.
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
		err = c.await(syscall.RawConn.Write, func() error { return sendmsg(c.fd, packet, rights) })
	}
	return err
}

// sendmsg does not wait.
func sendmsg(fd int, packet, rights []byte) error {
	for {
		_, err := unix.SendmsgN(fd, packet, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch err {
		case nil, unix.EAGAIN:
			return err
		case unix.EINTR:
		default:
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// Recv waits for a message. The body is a part of buf if it fits; buf must be RecvBuffer long. The caller closes the
// descriptors, which have close-on-exec set. Recv returns io.EOF after the other side closed the connection.
func (c *Conn) Recv(buf []byte) (body []byte, files []int, err error) {
	body, files, err = c.TryRecv(buf)
	if err == unix.EAGAIN {
		err = c.await(syscall.RawConn.Read, func() (err error) {
			body, files, err = c.TryRecv(buf)
			return err
		})
	}
	return body, files, err
}

// TryRecv is Recv without waiting. It returns EAGAIN if there is no message yet. Callers that share one buffer among
// many connections call TryRecv after Wait.
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

// recvmsg does not wait. It calls the kernel again after the first end of file: the kernel checks for a message before
// it checks whether the other side has closed, so it misses a message that was sent between the two checks and
// followed by a close. The second call returns this message.
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

// open returns the body of a packet and the descriptors that belong to the message.
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

// rights returns the descriptors in a control message.
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

// Wait waits until there is a message or the other side has closed the connection.
func (c *Conn) Wait() error {
	var peek [1]byte
	return c.await(syscall.RawConn.Read, func() error {
		_, _, err := unix.Recvfrom(c.fd, peek[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EAGAIN {
			err = nil // the next TryRecv returns the error
		}
		return err
	})
}

// ended returns os.ErrClosed instead of the poller's unexported error if waiting ended because of Close.
func (c *Conn) ended(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.closed {
		return os.ErrClosed
	}
	return err
}

// FD returns the socket's descriptor. The caller must not close it.
func (c *Conn) FD() int { return c.fd }

// SetReadDeadline sets the deadline of Recv, Wait and Accept.
func (c *Conn) SetReadDeadline(t time.Time) error {
	file, _, err := c.poll()
	if err != nil {
		return err
	}
	return file.SetReadDeadline(t)
}

// CloseWrite ends the sending side: the other side receives io.EOF after the messages sent so far.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return os.ErrClosed // the descriptor's number may be in use for another file by now
	}
	return unix.Shutdown(c.fd, unix.SHUT_WR)
}

// Close closes the socket.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return os.ErrClosed
	case c.file == nil:
		c.closed = true
		return unix.Close(c.fd)
	}
	c.closed = true
	return c.file.Close()
}
