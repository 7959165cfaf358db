package workspace

import "io"

// flow tells of the bytes of a large file while they pass, so that somebody who watches sees them move. It
// tells of each once, though they may be read again.
type flow struct {
	io.Reader
	p    *Progress
	size int64
	told *int64
}

// Read implements io.Reader.
func (f *flow) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	more := min(int64(n), f.size-*f.told)
	*f.told += more
	f.p.did(0, more)
	return n, err
}

// finished tells of a file, and of what was not told of it as it passed.
func (p *Progress) finished(size int64, told *int64) {
	p.did(1, size-*told)
	*told = 0
}
