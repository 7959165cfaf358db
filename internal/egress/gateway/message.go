package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	maxMessage = 8 << 20
	maxFiles   = 250 // the kernel passes at most 253 descriptors at once
)

// send sends a message with descriptors and ends the sending side.
func send(c *net.UnixConn, message any, files []*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(body) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("%d bytes with %d descriptors are too much for one message", len(body), len(files))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	n, _, err := c.WriteMsgUnix(body, rights, nil)
	if err == nil {
		_, err = c.Write(body[n:])
	}
	if err != nil {
		return err
	}
	return c.CloseWrite()
}

// receive reads a message to its end. The caller closes the files, also after an error.
func receive(c *net.UnixConn, message any) (files []*os.File, err error) {
	first, control := make([]byte, 64<<10), make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, controlled, flags, _, err := c.ReadMsgUnix(first, control)
	if err != nil {
		return nil, err
	}
	if files, err = rights(control[:controlled]); err != nil {
		return files, err
	}
	if flags&syscall.MSG_CTRUNC != 0 {
		return files, errors.New("descriptors of the message are missing")
	}
	rest, err := io.ReadAll(io.LimitReader(c, maxMessage))
	if err != nil {
		return files, err
	}
	body := append(first[:n], rest...)
	if len(body) == 0 {
		return files, io.EOF
	}
	return files, json.Unmarshal(body, message)
}

func rights(control []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, nil
}

// copyOf returns a copy of a listener's descriptor. Unlike the listener's File, the copy does not become blocking when its
// number is used: the mode is that of all copies, and an Accept of the process that blocks could not be ended.
func copyOf(l net.Listener) (*os.File, error) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T has no descriptor", l)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	control := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(control, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// peer returns the user at the other end of a connection.
func peer(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	control := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(control, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
