package wire

// Code is the result code of a request.
type Code uint8

// The results. Reply.Text holds the error of Failed. The codes after Failed are errors of package guest.
const (
	OK Code = iota
	Failed
	NoProcess
	Exists
	Invalid
	NoInput
	Refused
	DiskFull
	codeEnd
)

// Reply is the answer to a request. The descriptors that the request asks for are sent with it.
type Reply struct {
	Code      Code
	Text      string
	Exit      *Exit
	Processes []Process
}

// Exit is the end of a command, as guest.Exit.
type Exit struct {
	Code   int
	Signal uint8
	Reason string
	Lost   bool
	At     int64 // Unix time, ns
	CPU    int64 // ns
	MaxRSS int64 // bytes
}

// Process is the status of a process that OpStart started.
type Process struct {
	ID        string
	Argv      []string
	Terminal  bool
	StartedAt int64 // Unix time, ns
	First     int64 // the oldest offset in its spool
	End       int64 // the offset after the newest byte
	Exit      *Exit // nil while the process runs
}

// Append appends r as a message to b.
func (r *Reply) Append(b []byte) []byte {
	e := encoder{b: b}
	e.uint(uint64(r.Code))
	e.string(r.Text)
	encodeExit(&e, r.Exit)
	e.uint(uint64(len(r.Processes)))
	for i := range r.Processes {
		e.nested(r.Processes[i].encode)
	}
	return e.b
}

// DecodeReply reads a Reply.
func DecodeReply(b []byte) (Reply, error) {
	d := decoder{b: b}
	r := Reply{Code: Code(d.small(uint64(codeEnd))), Text: d.string()}
	r.Exit = decodeExit(&d)
	for n := d.count(); n > 0 && !d.bad; n-- {
		var p Process
		d.nested(p.decode)
		r.Processes = append(r.Processes, p)
	}
	return r, d.err()
}

// Append appends a record that holds only x to b. Spools use it for their exit file.
func (x *Exit) Append(b []byte) []byte {
	e := encoder{b: b}
	x.encode(&e)
	return e.b
}

// DecodeExit reads a record of Exit.Append.
func DecodeExit(b []byte) (Exit, error) {
	d := decoder{b: b}
	var x Exit
	x.decode(&d)
	return x, d.err()
}

// encodeExit writes an exit that may be nil.
func encodeExit(e *encoder, x *Exit) {
	e.bool(x != nil)
	if x != nil {
		e.nested(x.encode)
	}
}

func decodeExit(d *decoder) *Exit {
	if !d.bool() {
		return nil
	}
	x := new(Exit)
	d.nested(x.decode)
	return x
}

func (x *Exit) encode(e *encoder) {
	e.uint(uint64(x.Code))
	e.uint(uint64(x.Signal))
	e.string(x.Reason)
	e.bool(x.Lost)
	e.int(x.At)
	e.int(x.CPU)
	e.int(x.MaxRSS)
}

func (x *Exit) decode(d *decoder) {
	x.Code = int(d.small(1 << 8))
	x.Signal = uint8(d.small(1 << 8))
	x.Reason = d.string()
	x.Lost = d.bool()
	x.At, x.CPU, x.MaxRSS = d.int(), d.int(), d.int()
}

func (p *Process) encode(e *encoder) {
	e.string(p.ID)
	e.strings(p.Argv)
	e.bool(p.Terminal)
	e.int(p.StartedAt)
	e.int(p.First)
	e.int(p.End)
	encodeExit(e, p.Exit)
}

func (p *Process) decode(d *decoder) {
	p.ID = d.string()
	p.Argv = d.strings()
	p.Terminal = d.bool()
	p.StartedAt, p.First, p.End = d.int(), d.int(), d.int()
	p.Exit = decodeExit(d)
}
