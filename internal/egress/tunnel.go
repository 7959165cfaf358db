package egress

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// tunnel carries bytes both ways until both sides have ended, one fails, nothing moves for the idle
// time, or ctx ends. A side that ends its sending may go on receiving. Both are closed in the end.
func tunnel(ctx context.Context, inside net.Conn, early []byte, outside net.Conn, idle time.Duration) {
	end := func() {
		_ = inside.Close()
		_ = outside.Close()
	}
	defer end()
	defer context.AfterFunc(ctx, end)()
	w := watch(idle, end)
	defer w.stop()
	var both sync.WaitGroup
	both.Go(func() { pass(outside, io.MultiReader(bytes.NewReader(early), inside), w, end) })
	both.Go(func() { pass(inside, outside, w, end) })
	both.Wait()
}

// pass copies one way. The end of the source ends the destination's input; an error ends everything.
func pass(dst net.Conn, src io.Reader, w *watchdog, end func()) {
	buf := buffers.Get()
	defer buffers.Put(buf)
	// Neither side's own way of copying: each read counts as a sign of life.
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{w.reader(src)}, buf)
	if err == nil {
		err = closeWrite(dst)
	}
	if err != nil {
		end()
	}
}

// bufferPool lends the buffers that bytes pass through.
type bufferPool struct{ pool sync.Pool }

var buffers = &bufferPool{sync.Pool{New: func() any { return new([16 << 10]byte) }}}

// Get lends a buffer.
func (b *bufferPool) Get() []byte { return b.pool.Get().(*[16 << 10]byte)[:] }

// Put takes it back.
func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[16 << 10]byte)(buf)) }

// watchdog ends something in which nothing moves.
type watchdog struct {
	timer *time.Timer
	idle  time.Duration
}

func watch(idle time.Duration, end func()) *watchdog {
	return &watchdog{time.AfterFunc(idle, end), idle}
}

func (w *watchdog) stop() { w.timer.Stop() }

// reader is r, whose every byte is a sign of life.
func (w *watchdog) reader(r io.Reader) io.Reader { return livingReader{r, w} }

type livingReader struct {
	io.Reader
	w *watchdog
}

func (l livingReader) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.w.timer.Reset(l.w.idle)
	}
	return n, err
}
