// Command plain is a helper without an instance, for tests: an ordinary process that runs commands as ordinary
// processes. Tests start it with a listening socket, a directory for spools, a workspace and a home directory.
package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/pid1"
)

func main() {
	if err := serve(); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func serve() error {
	if len(os.Args) != 3 {
		return unix.EINVAL
	}
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	if err := pid1.CloseInherited(5); err != nil {
		return err
	}
	// Orphaned processes are reparented to this process, as to pid 1 of an instance.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := unix.Listen(3, 128); err != nil {
		return err
	}
	return pid1.Serve(pid1.Options{Listener: 3, Spools: 4, Workdir: os.Args[1], Home: os.Args[2], Single: true})
}
