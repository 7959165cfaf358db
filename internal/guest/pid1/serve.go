package pid1

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/berthdev/berth/internal/guest/rate"
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Options configure a helper.
type Options struct {
	Listener int    // a listening SEQPACKET socket
	Spools   int    // a directory
	Workdir  string // the default directory of commands; empty: /workspace
	Home     string // the agent's home directory; empty: /home/agent
	Single   bool   // all commands run as the helper's user

	SpoolBytes int64 // the maximum bytes of output that all spools keep together; zero: no limit
}

// server is the state of a helper.
type server struct {
	Options
	null int // /dev/null

	mu        sync.Mutex
	children  map[int]*child      // children that were not reaped yet, by pid
	processes map[string]*process // processes that OpStart started, by id
	ended     []string            // ids of ended processes, oldest first
	listeners map[uint16]int      // descriptors of the listeners of OpListen, by port

	forked chan struct{} // tells reap that there is a new child

	// All requests are received in one buffer and all output is copied through another. Only one goroutine runs
	// at a time, so more buffers would only take memory. There are two because a slow disk can block the
	// second.
	received  buffer
	pumped    buffer
	uncounted atomic.Int64 // bytes of output since the sizes of all spools were last added up

	rateMu sync.Mutex
	rate   rate.Limit // of the output of all processes

	idle   *idler
	syncMu sync.Mutex // held during a sync: each one in progress blocks a thread
}

// buffer is a buffer that goroutines share.
type buffer struct {
	mu    sync.Mutex
	bytes [max(wire.RecvBuffer, pumpSize)]byte
}

// Serve serves requests and reaps children, forever. The calling goroutine reaps. All children of the process must be
// children of this server.
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
		backOff() // temporarily out of descriptors or memory
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

// receive reads a request through the shared buffer. It does not hold the buffer's lock while it waits.
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

// answer sends a reply. It ignores errors: the client may have closed the connection.
func answer(conn *wire.Conn, reply wire.Reply, files ...int) {
	var packet [256]byte
	_ = conn.Send(reply.Append(wire.Packet(packet[:])), files...)
}

// do handles all requests but OpRun. The caller sends the files with the reply and closes them.
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
