package telemetry

import (
	"io"
	"sync"
)

// Writer removes secrets from a stream, including those that are split over several writes. It keeps back the end of
// the text while that may be the beginning of a secret, at most the length of the longest pattern. Flush or Close
// writes the kept text.
type Writer struct {
	mu   sync.Mutex
	r    *Redactor
	w    io.Writer
	scan scan
}

// Writer returns a writer that redacts its input and writes it to w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{r: r, w: w} }

// Write redacts p and writes it. It returns len(p), also if it kept back a part, or 0 if the underlying writer fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.pass(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the kept text. If the rest of a secret is written later, the secret is not recognised, so call Flush
// only at the end of a stream or a message.
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
