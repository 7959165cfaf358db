// Package unix is the part of golang.org/x/sys/unix that the helper inside an instance needs. Names and signatures are
// the same.
//
// The helper starts when its package is initialised. Go first initialises the packages that it imports, which takes
// time and memory, and most other packages after it. So the helper must import few packages. This package imports only
// syscall, which every program has, and unsafe. golang.org/x/sys/unix imports strings, sort and encoding/binary, and
// with them most of the standard library.
package unix

import "syscall"

// Errno is syscall.Errno.
type Errno = syscall.Errno

// Signal is syscall.Signal.
type Signal = syscall.Signal

// Sockaddr is syscall.Sockaddr.
type Sockaddr = syscall.Sockaddr

// SockaddrInet4 is syscall.SockaddrInet4.
type SockaddrInet4 = syscall.SockaddrInet4

// SockaddrInet6 is syscall.SockaddrInet6.
type SockaddrInet6 = syscall.SockaddrInet6

// SockFilter is syscall.SockFilter.
type SockFilter = syscall.SockFilter

// SockFprog is syscall.SockFprog.
type SockFprog = syscall.SockFprog

// Stat_t is syscall.Stat_t.
type Stat_t = syscall.Stat_t

// Statfs_t is syscall.Statfs_t.
type Statfs_t = syscall.Statfs_t

// SizeofInotifyEvent is the size of an event without its name.
const SizeofInotifyEvent = syscall.SizeofInotifyEvent
