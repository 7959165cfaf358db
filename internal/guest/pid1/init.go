// Package pid1 is the helper inside an instance: the instance's first process, and the only process of Berth there.
//
// A program that imports this package becomes the helper if its first argument is berth-guest. init then runs the
// helper instead of main, before most other packages of the program are initialised, which saves their memory. setup
// makes the instance's file systems and network and drops all privileges that are not needed afterwards. Then the
// helper serves requests ([Serve]): it runs commands with the descriptors of a request, writes the output of
// long-lived processes to spools, reaps orphaned processes, and opens network connections.
//
// The helper must stay small: an idle instance is little more than this process. So this package and its imports use
// neither fmt nor reflection, hold no output in memory, and wait in Go's poller instead of in threads. The helper
// trusts the server, and does not trust the other processes of the instance.
package pid1

import (
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// The descriptors that the helper is started with.
const (
	fdListener = 3 // the socket for requests, which listens after setup
	fdLine     = 4 // the setup socket, with one Config and one Reply
	SpoolsFD   = 5 // the directory of the spools; the driver looks at it, too
	fdHeld     = 6 // the lock file of the instance's uids, locked as long as the helper runs
	fdName     = 7 // a socket whose name reserves the uids for servers of earlier releases
)

// Name is the first argument of a program that becomes the helper.
const Name = "berth-guest"

func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		run()
	}
}

// run sets up the instance and serves until the instance ends. If setup fails, it exits.
func run() {
	frugal()
	inert()
	for fd := fdListener; fd <= fdName; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := CloseInherited(fdName + 1); err != nil {
		os.Exit(1)
	}
	config, err := prepareInstance()
	if err != nil {
		os.Exit(1)
	}
	err = Serve(Options{
		Listener: fdListener, Spools: SpoolsFD,
		Workdir: config.Workdir, Home: config.Home, Single: config.Single, SpoolBytes: int64(config.Limits.SpoolBytes),
	})
	if err != nil {
		os.Exit(1)
	}
}

// CloseInherited closes the descriptors with the number from or higher that this program inherited: commands would
// inherit them too. It keeps descriptors with close-on-exec, which this program has opened itself.
func CloseInherited(from int) error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, ok := number(name)
		if !ok || fd < from {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// prepareInstance receives the Config on the setup socket, sets up the instance, replies, and starts to listen. The
// server treats an end of the connection without a reply as a failure. The helper treats a reply that it cannot send
// as a failure too, so an instance never listens if its server died before the instance was ready.
func prepareInstance() (wire.Config, error) {
	var config wire.Config
	line, err := wire.NewConn(fdLine)
	if err != nil {
		return config, err
	}
	defer line.Close()
	body, trees, err := line.Recv(make([]byte, wire.RecvBuffer))
	if err != nil {
		return config, err
	}
	config, err = wire.DecodeConfig(body)
	if err == nil {
		err = setup(&config, trees)
	}
	reply := wire.Reply{Code: wire.OK}
	if err != nil {
		reply = wire.Reply{Code: wire.Failed, Text: err.Error()}
	}
	if sent := line.Send(reply.Append(wire.Packet(nil))); err == nil {
		err = sent
	}
	if err == nil {
		// SO_PEERCRED gives clients the process that called listen, so this process must call it.
		err = unix.Listen(fdListener, backlog)
	}
	return config, err
}

// backlog is the maximum number of connections that wait to be accepted.
const backlog = 1024
