package boot

import (
	"syscall"
	"unsafe"
)

// disposition is the kernel's struct sigaction.
type disposition struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	saRestorer = 0x04000000
	saOnStack  = 0x08000000 // the stacks of goroutines are too small for a signal's frame
	saRestart  = 0x10000000
)

// handlerOfNothing returns a signal handler that does nothing, and how the kernel leaves it. It is
// assembly because a handler runs on any thread, in the middle of anything.
func handlerOfNothing() (handler, restorer uintptr)

// inert takes Go's handlers off the signals that would end the process, and off SIGCHLD, which would only
// interrupt it with every command. Commands inherit none of this: handlers end with an exec, and nothing
// is ignored.
//
// Signals that would end a process get a handler that does nothing. Without one the kernel drops them for
// the first process of an instance, but not always: while the first thread blocks signals, as it does in
// handlers of Go and when it makes a thread, they go to another thread and end them all. The others get
// the default, which the kernel never applies to a first process: they dump core, stop, or do nothing.
func inert() {
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		var d disposition
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGPROF, realTime + 1:
			continue
		case syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTERM,
			syscall.SIGSTKFLT, syscall.SIGVTALRM, syscall.SIGIO, syscall.SIGPWR, realTime, realTime + 2:
			d.handler, d.restorer = handlerOfNothing()
			d.flags = saRestorer | saOnStack | saRestart
			d.mask = ^uint64(0) // one at a time: the stack has no room for many
		}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&d)), 0, 8, 0, 0)
	}
}

// Of the real-time signals Go leaves the first and the third alone, handles the second, which it uses to
// act on every thread, and takes no notice of the others.
const (
	realTime   = syscall.Signal(32)
	lastSignal = realTime + 2
)
