package pid1

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// dial starts a connection to a port of the loopback. The helper does not wait until it is connected, because code in
// the instance could delay that. The server waits.
func dial(port uint16, ipv6 bool) (wire.Reply, []int) {
	if port == 0 {
		return invalid("no port"), nil
	}
	family := unix.AF_INET
	var addr unix.Sockaddr = &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	if ipv6 {
		family = unix.AF_INET6
		addr = &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == unix.EAFNOSUPPORT {
		return wire.Reply{Code: wire.Refused}, nil
	}
	if err != nil {
		return failure("socket", err), nil
	}
	switch err := unix.Connect(fd, addr); err {
	case nil, unix.EINPROGRESS:
		return wire.Reply{}, []int{fd}
	case unix.ECONNREFUSED, unix.EADDRNOTAVAIL, unix.ENETUNREACH:
		unix.Close(fd)
		return wire.Reply{Code: wire.Refused}, nil
	default:
		unix.Close(fd)
		return failure("connect", err), nil
	}
}

// listen replies with a copy of the listener of a port. It makes the listener if there is none.
func (s *server) listen(port uint16) (wire.Reply, []int) {
	if port == 0 {
		return invalid("no port"), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, ok := s.listeners[port]
	if !ok {
		var err error
		if fd, err = listener(port); err != nil {
			return failure("listen", err), nil
		}
		s.listeners[port] = fd
	}
	return pass(fd)
}

func listener(port uint16) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// pass returns a reply with a copy of a descriptor. The helper keeps the original.
func pass(fd int) (wire.Reply, []int) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return failure("dup", err), nil
	}
	return wire.Reply{}, []int{copied}
}
