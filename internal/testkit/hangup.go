package testkit

import (
	"os"
	"os/signal"
	"syscall"
)

// Under nohup a process starts with SIGHUP ignored, and its children inherit that. Tests must not depend on it: the
// children of a test process always start with the default action of SIGHUP.
func init() {
	if signal.Ignored(syscall.SIGHUP) {
		TakeHangups()
	}
}

// TakeHangups installs a handler that discards SIGHUP. Child processes inherit an ignored signal, but not a handler.
func TakeHangups() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }
