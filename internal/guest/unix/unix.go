// Package unix is the part of golang.org/x/sys/unix that the helper inside an instance needs, under the
// same names and with the same signatures.
//
// The helper takes over when its package is initialised. Go initialises packages by their dependencies
// and then by their names, so every import decides which parts of the whole program come first, with their
// time and their memory. This package imports nothing but syscall, which is there anyway; the real one
// brings strings, sort and encoding/binary, and with them most of the standard library.
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
