package dirblob

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// tagOf derives an object's tag from its file: inode, modification time and size. A file never changes. A file that
// replaces another one is written before that file is removed, so it has another inode. An inode can be reused only
// after its file is removed, and the new file then has a later time. [stamps] ensures this, because the kernel's
// own times are too coarse. Copies are hard links to the same file, and so have the same tag.
func tagOf(st *unix.Stat_t) blob.Tag {
	return blob.Tag(strconv.FormatInt(st.Mtim.Nano(), 36) + "-" + strconv.FormatUint(st.Ino, 36) + "-" + strconv.FormatInt(st.Size, 36))
}

// writtenAt returns the change time of the file, which is never before the write.
func writtenAt(st *unix.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }

// stamps returns strictly increasing times, even if the clock stops or goes backwards.
type stamps struct {
	mu   sync.Mutex
	last time.Time
}

// stampStep is the smallest difference of times that all supported file systems store.
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

// probe returns an error if the file system does not store times exactly enough for tags, or has no hard links.
func (s *Store) probe() error {
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	// A fixed time with microseconds.
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
