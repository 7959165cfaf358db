package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bufferBytes is the requested size of a socket's buffers. The kernel may grant less.
const bufferBytes = 4 << 20

// buffers fills the buffers of sockets with the given number of mebibytes in total. The data is never read.
func buffers(args []string) error {
	what, n, err := wordAndNumber(args)
	if err != nil {
		return err
	}
	fill := map[string]func() (int, error){"tcp": func() (int, error) { return fillStream(bufferBytes) }, "udp": fillDatagrams}[what]
	if fill == nil {
		return errUsage
	}
	idle := 0
	return fillUntil(n*mebibyte, func() (int, error) {
		filled, err := fill()
		if filled < 64<<10 {
			idle++
		}
		if err == nil && idle > 20 {
			err = errors.New("the buffers are full")
		}
		return filled, err
	})
}

// fillUntil calls fill until it has filled the given number of bytes in total.
func fillUntil(bytes int, fill func() (int, error)) error {
	for total := 0; total < bytes; {
		filled, err := fill()
		if err != nil {
			return fmt.Errorf("after %d MiB: %w", total/mebibyte, err)
		}
		total += filled
	}
	return nil
}

// connections fills the given number of mebibytes with data in sockets that the kernel does not limit, and holds them for
// the given number of seconds.
func connections(args []string) error {
	if len(args) != 3 {
		return errUsage
	}
	numbers, err := number(args[1:], 2)
	if err != nil {
		return err
	}
	what, n, seconds := args[0], numbers[0], numbers[1]
	fill := map[string]func() (int, error){"segments": func() (int, error) { return fillStream(0) }, "reset": fillReset, "empty": fillBacklog,
		"timestamps": fillTimestamps, "errors": fillErrors}[what]
	if fill == nil {
		return errUsage
	}
	if err := fillUntil(n*mebibyte, fill); err != nil {
		return err
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	return nil
}

// listener makes a socket with a new address. bytes is the size of its receive buffer; 0: the usual size.
func listener(kind, bytes int) (fd int, at unix.Sockaddr, err error) {
	if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, nil, err
	}
	if bytes > 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
	}
	err = errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if err != nil {
		return -1, nil, err
	}
	at, err = unix.Getsockname(fd)
	return fd, at, err
}

// sender makes a socket that sends to an address. bytes is the size of its send buffer; 0: the usual size.
func sender(kind int, to unix.Sockaddr, bytes int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind, 0)
	if err != nil {
		return -1, err
	}
	if bytes > 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
	}
	return fd, errors.Join(err, unix.Connect(fd, to), unix.SetNonblock(fd, true))
}

// connection makes a TCP connection to a new listening socket, which has not accepted it. The arguments are the sizes of
// the listening socket's receive buffer and of the sender's send buffer.
func connection(receive, send int) (at, from int, err error) {
	at, addr, err := listener(unix.SOCK_STREAM, receive)
	if err != nil {
		return -1, -1, err
	}
	if err := unix.Listen(at, 1); err != nil {
		return -1, -1, err
	}
	from, err = sender(unix.SOCK_STREAM, addr, send)
	return at, from, err
}

// fillStream fills the buffers of a new TCP connection, and returns the number of bytes in them. bytes is the size of
// each buffer; 0: the usual size.
func fillStream(bytes int) (filled int, err error) {
	at, from, err := connection(bytes, bytes)
	if err != nil {
		return 0, err
	}
	if _, _, err := unix.Accept(at); err != nil {
		return 0, err
	}
	if err := unix.Close(at); err != nil {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for {
		n, err := unix.Write(from, block)
		if err == unix.EAGAIN {
			return filled, nil
		}
		if err != nil {
			return filled, err
		}
		filled += n
	}
}

// fillDatagrams fills a socket's buffer with datagrams, and returns the bytes of memory that they take.
func fillDatagrams() (int, error) {
	at, addr, err := listener(unix.SOCK_DGRAM, bufferBytes)
	if err != nil {
		return 0, err
	}
	from, err := sender(unix.SOCK_DGRAM, addr, bufferBytes)
	if err != nil {
		return 0, err
	}
	defer unix.Close(from)
	block := make([]byte, 60_000)
	for range 2 * bufferBytes / len(block) {
		if _, err := unix.Write(from, block); err != nil && err != unix.EAGAIN && err != unix.ENOBUFS {
			return 0, err
		}
	}
	return received(at)
}

// received returns the bytes of memory of the data that a socket has received.
func received(fd int) (int, error) {
	var used [9]uint32 // the first element is the memory of the received data
	size := uint32(len(used) * 4)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO, pointer(&used), pointer(&size), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(used[0]), nil
}

// fillReset fills a connection that no process accepts, and resets it. It returns the number of bytes that the other
// end keeps.
func fillReset() (filled int, err error) {
	_, from, err := connection(bufferBytes, bufferBytes)
	if err != nil {
		return 0, err
	}
	defer unix.Close(from)
	block := make([]byte, 64<<10)
	for pauses := 0; pauses < 3; {
		n, err := unix.Write(from, block)
		switch {
		case err == unix.EAGAIN:
			pauses++
			time.Sleep(time.Millisecond)
		case err != nil:
			return 0, err
		default:
			filled += n
		}
	}
	unsent, err := unix.IoctlGetInt(from, unix.TIOCOUTQ)
	if err != nil {
		return 0, err
	}
	return filled - unsent, unix.SetsockoptLinger(from, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// fillBacklog makes connections without data that no process accepts. The other end keeps a socket for each, also after
// the connection was closed. It returns the number of bytes that the sockets take.
func fillBacklog() (filled int, err error) {
	const socketBytes, backlog = 2560, 1000
	at, addr, err := listener(unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Listen(at, backlog); err != nil {
		return 0, err
	}
	for range backlog {
		from, err := sender(unix.SOCK_STREAM, addr, 0)
		if err != nil {
			return 0, err
		}
		if err := unix.Close(from); err != nil {
			return 0, err
		}
	}
	return backlog * socketBytes, nil
}

// fillTimestamps sends data over a connection and asks with each message for the time when it was sent. The kernel queues
// the times on the sender's socket, with the data. It returns the bytes of memory of the queue.
func fillTimestamps() (int, error) {
	at, from, err := connection(0, bufferBytes)
	if err != nil {
		return 0, err
	}
	to, _, err := unix.Accept(at)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(unix.SetsockoptInt(from, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes), unix.Close(at)); err != nil {
		return 0, err
	}
	request := make([]byte, unix.CmsgSpace(4))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&request[0]))
	header.Level, header.Type = unix.SOL_SOCKET, unix.SO_TIMESTAMPING
	header.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(request[unix.CmsgLen(0):], unix.SOF_TIMESTAMPING_TX_SOFTWARE)
	block := make([]byte, 32<<10)
	for range 2 * bufferBytes / len(block) {
		if n, err := unix.SendmsgN(from, block, request, nil, 0); err != nil || n != len(block) {
			return 0, fmt.Errorf("sent %d bytes: %w", n, err)
		}
		for left := len(block); left > 0; {
			n, err := unix.Read(to, block)
			if err != nil || n == 0 {
				return 0, fmt.Errorf("read %d bytes: %w", n, err)
			}
			left -= n
		}
	}
	if filled, err := received(from); filled > 0 || err != nil {
		return filled, err
	}
	return 0, errors.New("the kernel does not queue times")
}

// fillErrors sends datagrams to a port without a listener. The kernel queues an error for each. It returns the bytes of
// memory of the queue.
func fillErrors() (int, error) {
	nowhere, addr, err := listener(unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Close(nowhere); err != nil {
		return 0, err
	}
	from, err := sender(unix.SOCK_DGRAM, addr, bufferBytes)
	if err != nil {
		return 0, err
	}
	err = errors.Join(unix.SetsockoptInt(from, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes), unix.SetsockoptInt(from, unix.IPPROTO_IP, unix.IP_RECVERR, 1))
	if err != nil {
		return 0, err
	}
	block := make([]byte, 1000)
	for range 8000 {
		_, _ = unix.Write(from, block) // every second call returns the error of the one before
	}
	return received(from)
}
