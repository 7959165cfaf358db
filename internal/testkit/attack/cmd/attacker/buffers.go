package main

import (
	"errors"
	"fmt"

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
	fill := map[string]func() (int, error){"tcp": fillStream, "udp": fillDatagrams}[what]
	if fill == nil {
		return errUsage
	}
	for total, idle := 0, 0; total < n*mebibyte; {
		filled, err := fill()
		if err != nil {
			return fmt.Errorf("after %d MiB: %w", total/mebibyte, err)
		}
		if total += filled; filled < 64<<10 {
			idle++
		}
		if idle > 20 {
			return fmt.Errorf("after %d MiB the buffers are full", total/mebibyte)
		}
	}
	return nil
}

// listener makes a socket with a new address and a large receive buffer.
func listener(kind int) (fd int, at unix.Sockaddr, err error) {
	if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, nil, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if err != nil {
		return -1, nil, err
	}
	at, err = unix.Getsockname(fd)
	return fd, at, err
}

// sender makes a socket that sends to an address.
func sender(kind int, to unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind, 0)
	if err != nil {
		return -1, err
	}
	return fd, errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bufferBytes), unix.Connect(fd, to), unix.SetNonblock(fd, true))
}

// fillStream fills the buffers of a new TCP connection, and returns the number of bytes in them.
func fillStream() (filled int, err error) {
	at, addr, err := listener(unix.SOCK_STREAM)
	if err != nil {
		return 0, err
	}
	if err := unix.Listen(at, 1); err != nil {
		return 0, err
	}
	from, err := sender(unix.SOCK_STREAM, addr)
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
	at, addr, err := listener(unix.SOCK_DGRAM)
	if err != nil {
		return 0, err
	}
	from, err := sender(unix.SOCK_DGRAM, addr)
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
	var used [9]uint32 // the first element is the memory of the received data
	size := uint32(len(used) * 4)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(at), unix.SOL_SOCKET, unix.SO_MEMINFO, pointer(&used), pointer(&size), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(used[0]), nil
}
