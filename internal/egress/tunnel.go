package egress

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// tunnel copies bytes in both directions until both sides have ended their output, one fails, no byte arrives for the
// idle time, or ctx ends. Then it closes both. A side that has ended its output can still receive. early contains bytes
// that were already read from inside.
func tunnel(ctx context.Context, inside net.Conn, early []byte, outside net.Conn, idle time.Duration) {
	end := func() {
		_ = inside.Close()
		_ = outside.Close()
	}
	defer end()
	defer context.AfterFunc(ctx, end)()
	w := newWatchdog(idle, end)
	defer w.stop()
	var both sync.WaitGroup
	both.Go(func() { copyOneWay(outside, io.MultiReader(bytes.NewReader(early), inside), w, end) })
	both.Go(func() { copyOneWay(inside, outside, w, end) })
	both.Wait()
}

// copyOneWay copies in one direction. At the end of src it closes the sending side of dst. After an error it calls end.
func copyOneWay(dst net.Conn, src io.Reader, w *watchdog, end func()) {
	buf := buffers.Get()
	defer buffers.Put(buf)
	// The wrappers hide ReadFrom and WriteTo of the connections, so that the watchdog notices each read.
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{w.reader(src)}, buf)
	if err == nil {
		err = closeWrite(dst)
	}
	if err != nil {
		end()
	}
}

// bufferPool is a pool of the buffers for copying. It implements httputil.BufferPool.
type bufferPool struct{ pool sync.Pool }

var buffers = &bufferPool{sync.Pool{New: func() any { return new([16 << 10]byte) }}}

// Get returns a buffer of the pool.
func (b *bufferPool) Get() []byte { return b.pool.Get().(*[16 << 10]byte)[:] }

// Put returns a buffer to the pool.
func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[16 << 10]byte)(buf)) }

// watchdog calls a function once no data was read for the idle time.
type watchdog struct {
	timer *time.Timer
	idle  time.Duration
}

func newWatchdog(idle time.Duration, end func()) *watchdog {
	return &watchdog{time.AfterFunc(idle, end), idle}
}

func (w *watchdog) stop() { w.timer.Stop() }

// reader returns a reader of r that restarts the idle time at each read of data.
func (w *watchdog) reader(r io.Reader) io.Reader { return watchedReader{r, w} }

type watchedReader struct {
	io.Reader
	w *watchdog
}

func (l watchedReader) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.w.timer.Reset(l.w.idle)
	}
	return n, err
}
