// Command plain is the helper of an instance without the instance: an ordinary process that runs commands
// beside itself. It is for tests, which start it with a listening socket, a directory for spools, a
// workspace and a home.
package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/boot"
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
	if err := boot.CloseInherited(5); err != nil {
		return err
	}
	// What nobody waits for is left to us, as it is to the first process of an instance.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := unix.Listen(3, 128); err != nil {
		return err
	}
	return boot.Serve(boot.Options{Listener: 3, Spools: 4, Workdir: os.Args[1], Home: os.Args[2], Single: true})
}
