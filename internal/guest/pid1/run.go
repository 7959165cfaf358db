package pid1

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// run runs a command with the descriptors of its request, and replies with its exit. It kills the command if the server
// closes the connection, or the sending side of it, first.
func (s *server) run(conn *wire.Conn, c *wire.Cmd, files []int) {
	watched := s.launch(conn, c, files)
	wire.CloseAll(files) // now only the command has them open, so they close when it ends
	if watched == nil {
		return
	}
	_ = conn.Wait()
	if s.killSession(watched.child) {
		<-watched.ended
	}
	s.mu.Lock()
	watched.left = true
	s.mu.Unlock()
}

// watched is a command that ends with a connection.
type watched struct {
	child *child
	left  bool          // the connection is closed: reap must not reply; guarded by the server's lock
	ended chan struct{} // closed when the command was reaped
}

// launch starts the command of OpRun. If the command cannot be started, launch replies and returns nil.
func (s *server) launch(conn *wire.Conn, c *wire.Cmd, files []int) *watched {
	if why := s.check(c); why != "" {
		answer(conn, invalid(why))
		return nil
	}
	std, ok := s.streams(c.Streams, files)
	if !ok {
		answer(conn, invalid("streams do not match"))
		return nil
	}
	w := &watched{ended: make(chan struct{})}
	cmd, exit := s.prepare(c)
	if exit == nil {
		w.child, exit = s.fork(&cmd, std, func(x *wire.Exit) {
			if !w.left {
				answer(conn, wire.Reply{Exit: x})
			}
			close(w.ended)
		})
	}
	if exit != nil {
		answer(conn, wire.Reply{Exit: exit})
		return nil
	}
	return w
}

// streams returns a command's standard descriptors: those of the request, and /dev/null for the others.
func (s *server) streams(which wire.Streams, files []int) (std [3]int, ok bool) {
	for i, stream := range [...]wire.Streams{wire.Stdin, wire.Stdout, wire.Stderr} {
		std[i] = s.null
		if which&stream == 0 {
			continue
		}
		if len(files) == 0 {
			return std, false
		}
		std[i], files = files[0], files[1:]
	}
	return std, len(files) == 0
}

// killSession kills the command and all processes in its session. It returns false if the command has ended.
func (s *server) killSession(c *child) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive(c) {
		return false
	}
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	killAllInSession(c.pid)
	return true
}
