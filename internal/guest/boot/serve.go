package boot

import (
	"errors"
	"os"
	"sync"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Options say where a helper serves.
type Options struct {
	Listener int    // a listening SEQPACKET socket
	Spools   int    // a directory
	Workdir  string // empty: /workspace
	Home     string // empty: /home/agent
	Single   bool   // commands run as the user that the helper is
}

// server is the state of a helper.
type server struct {
	Options
	null int // /dev/null

	mu        sync.Mutex
	children  map[int]*child      // those that run, by pid
	processes map[string]*process // those that were started, by id
	ended     []string            // ids of those that ended, oldest first
	listeners map[uint16]int      // those that were asked for, by port

	forked chan struct{} // a child was forked, for the reaper

	// One buffer for all that is received, and one for all that is pumped: as only one goroutine runs at
	// a time, more would only be memory. They are two because a slow disk may hold up the second.
	received buffer
	pumped   buffer

	idle   *idler
	syncMu sync.Mutex // one file is synced at a time: each would keep a thread
}

// buffer is one that goroutines share.
type buffer struct {
	mu    sync.Mutex
	bytes [max(wire.RecvBuffer, pumpSize)]byte
}

// Serve serves requests and reaps children, for ever: the calling goroutine is the one that reaps. The
// process must have no other children than those it starts here.
func Serve(o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	listener, err := wire.NewConn(o.Listener)
	if err != nil {
		return err
	}
	go s.accept(listener)
	s.reap()
	return nil
}

func newServer(o Options) (*server, error) {
	if o.Workdir == "" {
		o.Workdir = "/workspace"
	}
	if o.Home == "" {
		o.Home = "/home/agent"
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	return &server{
		Options: o, null: null,
		children: map[int]*child{}, processes: map[string]*process{}, listeners: map[uint16]int{},
		forked: make(chan struct{}, 1), idle: newIdler(),
	}, nil
}

func (s *server) accept(listener *wire.Conn) {
	for {
		conn, err := listener.Accept()
		if err == nil {
			go s.handle(conn)
			continue
		}
		if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EINVAL) {
			return
		}
		relax() // out of descriptors or memory, for now
	}
}

// handle answers the one request of a connection.
func (s *server) handle(conn *wire.Conn) {
	s.idle.begin()
	defer s.idle.end()
	defer conn.Close()
	r, files, err := s.receive(conn)
	if err != nil {
		if errors.Is(err, wire.ErrMalformed) {
			answer(conn, wire.Reply{Code: wire.Invalid, Text: err.Error()})
		}
		return
	}
	if r.Op == wire.OpRun {
		s.run(conn, &r.Cmd, files)
		return
	}
	wire.CloseAll(files)
	reply, files := s.do(&r)
	answer(conn, reply, files...)
	wire.CloseAll(files)
}

// receive reads a request into the shared buffer, which nobody holds while waiting.
func (s *server) receive(conn *wire.Conn) (r wire.Request, files []int, err error) {
	for {
		s.received.mu.Lock()
		var body []byte
		body, files, err = conn.TryRecv(s.received.bytes[:])
		if err == nil {
			r, err = wire.DecodeRequest(body)
		}
		s.received.mu.Unlock()
		if err == nil {
			return r, files, nil
		}
		wire.CloseAll(files)
		if err != unix.EAGAIN {
			return r, nil, err
		}
		if err := conn.Wait(); err != nil {
			return r, nil, err
		}
	}
}

// answer sends a reply, which nobody may wait for any more.
func answer(conn *wire.Conn, reply wire.Reply, files ...int) {
	var packet [256]byte
	_ = conn.Send(reply.Append(wire.Packet(packet[:])), files...)
}

// do does what needs no connection. The files are for the reply alone.
func (s *server) do(r *wire.Request) (reply wire.Reply, files []int) {
	switch r.Op {
	case wire.OpPing:
		return wire.Reply{}, nil
	case wire.OpStart:
		return s.start(r.ID, &r.Cmd), nil
	case wire.OpStatus:
		return s.status(r.ID), nil
	case wire.OpList:
		return s.list(), nil
	case wire.OpSignal:
		return s.signal(r.ID, unix.Signal(r.Signal)), nil
	case wire.OpInput:
		return s.input(r.ID)
	case wire.OpCloseInput:
		return s.closeInput(r.ID), nil
	case wire.OpResize:
		return s.resize(r.ID, r.Size), nil
	case wire.OpKillAll:
		return s.killAll(), nil
	case wire.OpDial:
		return dial(r.Port, r.IPv6)
	case wire.OpListen:
		return s.listen(r.Port)
	}
	return wire.Reply{Code: wire.Invalid, Text: "unknown request"}, nil
}

func failure(doing string, err error) wire.Reply {
	return wire.Reply{Code: wire.Failed, Text: doing + ": " + err.Error()}
}

func invalid(why string) wire.Reply {
	return wire.Reply{Code: wire.Invalid, Text: why}
}
