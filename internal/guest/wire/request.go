package wire

// Op is the operation of a request.
type Op uint8

// The operations with the fields of Request that they use. Each request has its own connection.
const (
	OpPing       Op = iota + 1
	OpRun           // uses Cmd, with the descriptors of Streams; replies with the Exit; a closed connection kills the command
	OpStart         // uses ID and Cmd
	OpStatus        // uses ID
	OpList          // uses no field
	OpSignal        // uses ID and Signal
	OpInput         // uses ID; replies with the writing end of the process's input
	OpCloseInput    // uses ID
	OpResize        // uses ID and Size
	OpKillAll       // uses no field
	OpDial          // uses Port and IPv6; replies with a socket that is connected or still connecting
	OpListen        // uses Port; replies with the listening socket
	opEnd
)

// Request is one request to the helper.
type Request struct {
	Op     Op
	ID     string
	Cmd    Cmd
	Signal uint8
	Port   uint16
	IPv6   bool
	Size   Size
}

// ValidID reports whether id is a valid id of a process. The process's spool is a directory of this name.
func ValidID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Size is the size of a terminal in characters.
type Size struct{ Rows, Cols uint16 }

// Cmd is a command, as guest.Cmd.
type Cmd struct {
	Argv, Env []string
	Dir       string
	Root      bool
	Streams   Streams
	Input     bool
	Terminal  *Size
	Keep      int64
	Timeout   int64 // ns; 0: none
}

// Streams is the set of a command's streams that have a descriptor. The descriptors are in the order of the bits.
type Streams uint8

// The streams of a command.
const (
	Stdin Streams = 1 << iota
	Stdout
	Stderr
	streamsEnd
)

// Append appends r as a message to b.
func (r *Request) Append(b []byte) []byte {
	e := encoder{b: b}
	e.uint(uint64(r.Op))
	e.string(r.ID)
	e.uint(uint64(r.Signal))
	e.uint(uint64(r.Port))
	e.bool(r.IPv6)
	r.Size.encode(&e)
	r.Cmd.encode(&e)
	return e.b
}

// DecodeRequest reads a Request.
func DecodeRequest(b []byte) (Request, error) {
	d := decoder{b: b}
	r := Request{Op: Op(d.small(uint64(opEnd))), ID: d.string()}
	r.Signal = uint8(d.small(1 << 8))
	r.Port = uint16(d.small(1 << 16))
	r.IPv6 = d.bool()
	r.Size.decode(&d)
	r.Cmd.decode(&d)
	if r.Op == 0 {
		d.fail()
	}
	return r, d.err()
}

func (s *Size) encode(e *encoder) {
	e.uint(uint64(s.Rows))
	e.uint(uint64(s.Cols))
}

func (s *Size) decode(d *decoder) {
	s.Rows = uint16(d.small(1 << 16))
	s.Cols = uint16(d.small(1 << 16))
}

// encode writes c at the end of the request, without a length. New fields of Request or Cmd must follow Timeout.
func (c *Cmd) encode(e *encoder) {
	e.strings(c.Argv)
	e.strings(c.Env)
	e.string(c.Dir)
	e.bool(c.Root)
	e.uint(uint64(c.Streams))
	e.bool(c.Input)
	e.bool(c.Terminal != nil)
	if c.Terminal != nil {
		c.Terminal.encode(e)
	}
	e.int(c.Keep)
	e.int(c.Timeout)
}

func (c *Cmd) decode(d *decoder) {
	c.Argv, c.Env, c.Dir = d.strings(), d.strings(), d.string()
	c.Root = d.bool()
	c.Streams = Streams(d.small(uint64(streamsEnd)))
	c.Input = d.bool()
	if d.bool() {
		c.Terminal = new(Size)
		c.Terminal.decode(d)
	}
	c.Keep, c.Timeout = d.int(), d.int()
}
