package telemetry

import (
	"io"
	"sync"
)

// Writer takes secrets out of a stream, also those that come in pieces. It
// holds back the end of what was written while that may be the start of a
// secret: never more than the longest form of one. Flush or Close lets it go.
type Writer struct {
	mu   sync.Mutex
	r    *Redactor
	w    io.Writer
	scan scan
}

// Writer returns a writer that redacts into w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{r: r, w: w} }

// Write passes p on without secrets. It reports all of p as written unless the
// underlying writer fails, and then none of it.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.pass(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush passes on what is held back. A secret whose second half is only
// written afterwards is not recognised, so flush at the end of a stream or of a
// message, not between two pieces.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pass(nil, true)
}

// Close flushes. It does not close the underlying writer.
func (w *Writer) Close() error { return w.Flush() }

func (w *Writer) pass(p []byte, final bool) error {
	held := w.scan.rest
	text := append(held[:len(held):len(held)], p...)
	w.r.mu.RLock()
	out := w.scan.run(w.r, make([]byte, 0, len(text)), text, final)
	w.r.mu.RUnlock()
	if len(out) == 0 {
		return nil
	}
	_, err := w.w.Write(out)
	return err
}
