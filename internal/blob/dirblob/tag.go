package dirblob

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// tagOf names an object's state by its file: number, time of writing, size. A file is never changed, and
// one that replaces another exists beside it and so has another number. A number comes back only when
// its file is gone, and then with a later time: [stamps] sees to it, because the kernel's own times are
// too coarse for that. Copies share their file, and are the same bytes.
func tagOf(st *unix.Stat_t) blob.Tag {
	return blob.Tag(strconv.FormatInt(st.Mtim.Nano(), 36) + "-" + strconv.FormatUint(st.Ino, 36) + "-" + strconv.FormatInt(st.Size, 36))
}

// writtenAt is when a file got its name, or another one: never before it was written.
func writtenAt(st *unix.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }

// stamps gives each file a time of its own, later than all before it, even where the clock stands still
// or goes back.
type stamps struct {
	mu   sync.Mutex
	last time.Time
}

// stampStep is a difference that file systems keep.
const stampStep = time.Microsecond

func (s *stamps) next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Round(0).Truncate(stampStep)
	if !now.After(s.last) {
		now = s.last.Add(stampStep)
	}
	s.last = now
	return now
}

// trial refuses a file system that does not keep what tags are made of, or has no hard links.
func (s *Store) trial() error {
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	// A time with microseconds, whatever the clock says.
	at := time.Unix(1_500_000_000, 123_457_000)
	if err := d.file.stamp(at); err != nil {
		return err
	}
	st, err := d.file.stat()
	if err != nil {
		return err
	}
	if st.Mtim.Nano() != at.UnixNano() {
		return damaged("its file system does not keep the time of files to the microsecond; use another directory")
	}
	other := d.name + "-2"
	if err := s.tmp.link(d.name, s.tmp, other); err != nil {
		return damaged("its file system has no hard links (%w); use another directory", err)
	}
	return s.tmp.unlink(other)
}
