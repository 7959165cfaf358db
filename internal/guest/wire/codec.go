package wire

// encoder appends values to a buffer.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64) {
	for v >= 0x80 {
		e.b = append(e.b, byte(v)|0x80)
		v >>= 7
	}
	e.b = append(e.b, byte(v))
}

// int writes a signed number in zigzag encoding: numbers near zero take few bytes.
func (e *encoder) int(v int64) { e.uint(uint64(v)<<1 ^ uint64(v>>63)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strings(list []string) {
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.string(s)
	}
}

// nested writes the length of an inner record and then the record. A decoder can skip fields that it does not know.
func (e *encoder) nested(write func(*encoder)) {
	var inner encoder
	write(&inner)
	e.uint(uint64(len(inner.b)))
	e.b = append(e.b, inner.b...)
}

// decoder reads the values that encoder wrote. At the end of the input every further value is zero: an older sender
// does not send newer fields. After a truncated or impossible value all further values are zero and err returns
// ErrMalformed.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) err() error {
	if d.bad {
		return ErrMalformed
	}
	return nil
}

func (d *decoder) uint() uint64 {
	if len(d.b) == 0 {
		return 0
	}
	var v uint64
	for i, c := range d.b {
		if i == 9 && c > 1 || i > 9 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.b = d.b[i+1:]
			return v
		}
	}
	d.fail()
	return 0
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// small reads a number below a limit.
func (d *decoder) small(limit uint64) uint64 {
	v := d.uint()
	if v >= limit {
		d.fail()
		return 0
	}
	return v
}

func (d *decoder) bool() bool { return d.small(2) == 1 }

// bytes reads a byte string. The result is a part of the input, not a copy.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes()) }

// count reads the length of a list. It fails if the length exceeds the remaining bytes: each element takes at least
// one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) || n > maxList {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) strings() []string {
	n := d.count()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		if d.bad {
			return nil
		}
		list = append(list, d.string())
	}
	return list
}

// nested reads a record within a record.
func (d *decoder) nested(read func(*decoder)) {
	inner := decoder{b: d.bytes()}
	read(&inner)
	if inner.bad {
		d.fail()
	}
}
