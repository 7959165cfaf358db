package spool

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/berthdev/berth/internal/guest/unix"
)

// Readers are notified of changes by one inotify instance for the whole process. Readers also poll: every lookSeldom
// with inotify, and after lookFirst up to lookOften without, where the kernel refuses another watch.
const (
	lookSeldom = 5 * time.Second
	lookFirst  = 10 * time.Millisecond
	lookOften  = 250 * time.Millisecond
	// eventPause is the pause between two reads of the kernel's events. With many writers, fewer reads that wake
	// many readers each take less CPU time than many reads that wake one.
	eventPause = 3 * time.Millisecond
)

// subscription notifies one reader of changes in a directory.
type subscription struct {
	news  chan struct{}
	other atomic.Bool // there may be a change other than the growth of a segment
	hub   *hub        // nil: the subscription has no watch and polls often
	watch int32
	pause time.Duration // the next interval of polling without a hub
	timer *time.Timer   // nil before the first Wait
}

// watch subscribes to changes of the files in a directory.
func watch(dir string) *subscription {
	s := &subscription{news: make(chan struct{}, 1), pause: lookFirst}
	s.other.Store(true)
	if h := theHub(); h != nil {
		h.add(dir, s)
	}
	return s
}

// Expect makes the next poll early: after new output, more is likely to follow soon.
func (s *subscription) Expect() { s.pause = lookFirst }

// Wait waits until there may be a change.
func (s *subscription) Wait(ctx context.Context) error {
	pause := lookSeldom
	if s.hub == nil {
		pause = s.pause
		s.pause = min(2*s.pause, lookOften)
	}
	if s.timer == nil {
		s.timer = time.NewTimer(pause)
	} else {
		s.timer.Reset(pause)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.news:
	case <-s.timer.C:
		s.other.Store(true)
	}
	return nil
}

// Other reports whether there may have been a change other than the growth of a segment since the last call.
func (s *subscription) Other() bool { return s.other.Swap(false) || s.hub == nil }

// Close ends the subscription.
func (s *subscription) Close() {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.hub != nil {
		s.hub.remove(s)
	}
}

func (s *subscription) notify(other bool) {
	if other {
		s.other.Store(true)
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// hub is the process's inotify instance. The kernel returns the same watch for a directory that is added twice, so a
// watch can have many subscriptions.
type hub struct {
	fd   int
	file *os.File // fd, registered with the poller

	mu            sync.Mutex
	subscriptions map[int32]map[*subscription]bool
}

// theHub returns the hub of this process, or nil if the kernel refuses an inotify instance.
var theHub = sync.OnceValue(func() *hub {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	h := &hub{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), subscriptions: map[int32]map[*subscription]bool{}}
	go h.listen()
	return h
})

func (h *hub) add(dir string, s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wd, err := unix.InotifyAddWatch(h.fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR)
	if err != nil {
		return
	}
	s.hub, s.watch = h, int32(wd)
	if h.subscriptions[s.watch] == nil {
		h.subscriptions[s.watch] = map[*subscription]bool{}
	}
	h.subscriptions[s.watch][s] = true
}

func (h *hub) remove(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.subscriptions[s.watch]
	delete(all, s)
	if all != nil && len(all) == 0 {
		delete(h.subscriptions, s.watch)
		_, _ = unix.InotifyRmWatch(h.fd, uint32(s.watch))
	}
}

// listen reads and dispatches the kernel's events, forever.
func (h *hub) listen() {
	buf := make([]byte, 16<<10)
	for {
		n, err := h.file.Read(buf)
		if err != nil {
			return
		}
		h.dispatch(buf[:n])
		if n < len(buf)/2 {
			time.Sleep(eventPause)
		}
	}
}

func (h *hub) dispatch(events []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		e := (*inotifyEvent)(unsafe.Pointer(&events[0]))
		end := min(unix.SizeofInotifyEvent+int(e.name), len(events))
		_, segment := segmentStart(unpadded(events[unix.SizeofInotifyEvent:end]))
		events = events[end:]
		h.event(e.watch, e.mask, e.mask&^unix.IN_MODIFY != 0 || !segment)
	}
}

// inotifyEvent is the kernel's struct inotify_event. The file's name, of length name, follows it.
type inotifyEvent struct {
	watch              int32
	mask, cookie, name uint32
}

// unpadded removes the zero bytes at the end of a name from the kernel.
func unpadded(name []byte) string {
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	return string(name)
}

// event notifies the subscriptions of a watch. other is set if it may be more than the growth of a segment. If the
// kernel lost events, all subscriptions are notified.
func (h *hub) event(wd int32, mask uint32, other bool) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, all := range h.subscriptions {
			notifyAll(all, true)
		}
		return
	}
	notifyAll(h.subscriptions[wd], other)
	if mask&unix.IN_IGNORED != 0 {
		delete(h.subscriptions, wd)
	}
}

func notifyAll(all map[*subscription]bool, other bool) {
	for s := range all {
		s.notify(other)
	}
}
