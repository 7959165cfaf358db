// Package boot is the helper inside an instance: its first process, and the only one of ours there.
//
// A program that imports it becomes the helper when it is started under the name berth-guest: [init] takes
// over before main, and before the packages that are initialised after this one, whose memory it thereby
// saves. setup makes the instance's world and gives up every privilege that is not needed afterwards; then
// the helper serves ([Serve]): it runs commands with the descriptors that come with a request, keeps what
// long-lived processes write in spools, reaps whatever nobody else waits for, and hands out connections.
//
// It has to stay small: an idle instance is little more than this process. So this package and what it
// imports use neither fmt nor reflection, hold no output in memory, and wait in Go's poller instead of in
// threads. It trusts the server, and nothing that runs beside it.
package boot

import (
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// The descriptors that the helper is started with.
const (
	fdListener = 3 // where requests come in
	fdLine     = 4 // the setup line
	fdSpools   = 5 // the directory of the spools
	fdHeld     = 6 // the claim on the instance's uids, held as long as the helper lives
)

// Name is the program's first argument that makes it the helper.
const Name = "berth-guest"

func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		run()
	}
}

// run is the helper's whole life. It ends with the instance, or where setup fails.
func run() {
	frugal()
	inert()
	for fd := fdListener; fd <= fdHeld; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := CloseInherited(fdHeld + 1); err != nil {
		os.Exit(1)
	}
	config, err := prepareInstance()
	if err != nil {
		os.Exit(1)
	}
	err = Serve(Options{
		Listener: fdListener, Spools: fdSpools,
		Workdir: config.Workdir, Home: config.Home, Single: config.Single,
	})
	if err != nil {
		os.Exit(1)
	}
}

// CloseInherited closes the descriptors from a number on that were left open to this program by the one
// that started it: commands would inherit them, too. What the program opened itself closes on exec.
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

// prepareInstance does what the setup line says, answers there, listens, and closes the line. The server
// takes a line that closes without an answer as a failure, and so does the helper: nobody ever finds an
// instance whose server was gone before it was ready.
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
		// Who listens is who a client finds at the other end, so it has to be this process.
		err = unix.Listen(fdListener, backlog)
	}
	return config, err
}

// backlog is how many requests may wait to be accepted.
const backlog = 1024
