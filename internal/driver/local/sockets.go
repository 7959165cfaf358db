package local

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Constants of the kernel's interface that lists local sockets (linux/unix_diag.h).
const (
	diagShowName = 0x01
	diagShowUser = 0x40
	diagName     = 0
	diagUser     = 7
	diagHeader   = 16 // size of the header before the attributes of a socket, in bytes
)

// boundByRoot reports whether a socket of root has an abstract name, written with @. It lists all local sockets, because
// the kernel cannot search them by name.
func boundByRoot(name string) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return false, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return false, os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return false, fmt.Errorf("list sockets: %w", err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return false, nil
			case unix.NLMSG_ERROR:
				return false, fmt.Errorf("list sockets: the kernel refuses")
			}
			if bound, user := diagSocket(m.Data); bound == "\x00"+name[1:] && user <= 0 {
				return true, nil
			}
		}
	}
}

// diagRequest returns the request for all local sockets, in any state.
func diagRequest() []byte {
	const size = unix.NLMSG_HDRLEN + 24
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, size)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = append(b, make([]byte, 8)...)                   // sequence, port
	b = append(b, unix.AF_UNIX, 0, 0, 0)                // family, protocol
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // states
	b = binary.NativeEndian.AppendUint32(b, 0)          // inode: any
	b = binary.NativeEndian.AppendUint32(b, diagShowName|diagShowUser)
	return append(b, make([]byte, 8)...) // cookie
}

// diagSocket parses the name and the user of a socket. The user is -1 if the kernel does not report it.
func diagSocket(data []byte) (name string, user int) {
	user = -1
	for rest := data[min(diagHeader, len(data)):]; len(rest) >= unix.SizeofRtAttr; {
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofRtAttr || size > len(rest) {
			break
		}
		value := rest[unix.SizeofRtAttr:size]
		switch {
		case kind == diagName:
			name = string(value)
		case kind == diagUser && len(value) == 4:
			user = int(binary.NativeEndian.Uint32(value))
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return name, user
}
