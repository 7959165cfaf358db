package pid1

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

// handlerOfNothing returns the addresses of a signal handler that does nothing and of the code that returns from it.
// The handler is assembly because it can interrupt any thread at any point.
func handlerOfNothing() (handler, restorer uintptr)

// inert removes Go's handlers from most signals, so that no process in the instance can end the helper by a signal. It
// also removes the handler of SIGCHLD, which would interrupt the helper after every command. Commands do not inherit
// these settings: execve resets handlers, and inert sets no signal to be ignored.
//
// Signals that end a process by default get a handler that does nothing. The default is not safe here. The kernel
// drops such signals for pid 1 in most cases. But while the first thread blocks signals, as in Go's handlers and while
// it makes a thread, another thread receives them and the whole process ends. All other signals get the default: a core
// dump, a stop or no effect, which the kernel never applies to pid 1.
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
			d.mask = ^uint64(0) // block all signals in the handler: the stack has no room for nested ones
		}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&d)), 0, 8, 0, 0)
	}
}

// Go's runtime sets no handler for the first and the third real-time signal. It handles the second, which it uses to
// run a function on every thread. Its handler ignores all higher ones.
const (
	realTime   = syscall.Signal(32)
	lastSignal = realTime + 2
)
