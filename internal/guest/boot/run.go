package boot

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// run runs a command with the streams that came with it, and answers with its exit. When the connection
// closes first, or the server says on it that it has no more to say, the command is killed.
func (s *server) run(conn *wire.Conn, c *wire.Cmd, files []int) {
	watched := s.launch(conn, c, files)
	wire.CloseAll(files) // what the command holds alone ends with it
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

// watched is a command that runs for a connection.
type watched struct {
	child *child
	left  bool // the reaper must not write there any more; with the server's lock
	ended chan struct{}
}

// launch starts the command of a run. It answers itself, and returns nil, if that cannot be done.
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

// streams are a command's descriptors: those that came along, and /dev/null for the others.
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

// killSession kills what a command started, as far as it stayed in its session. It is false when the
// command has ended.
func (s *server) killSession(c *child) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive(c) {
		return false
	}
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	killMembers(c.pid)
	return true
}
