package cli

import (
	"bytes"
	"errors"
	"io"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/screen"
)

// copyOutput shows what a command writes: byte by byte, and made harmless where a person looks at it.
func (f *frame) copyOutput(w *watch) (api.ExecExit, error) {
	stdout, closeOut := shownOn(f.out)
	stderr, closeErr := shownOn(f.err)
	end, err := w.Copy(stdout, stderr)
	return end, errors.Join(err, closeOut(), closeErr())
}

// shownOn is where the output of a sandbox goes.
func shownOn(s stream) (io.Writer, func() error) {
	if !s.tty {
		return s.Writer, func() error { return nil }
	}
	w := screen.NewWriter(s.Writer)
	return w, w.Close
}

// mostCollected is how much of each output one document holds.
const mostCollected = 8 << 20

// collectOutput prints everything as one document when the command has ended.
func (f *frame) collectOutput(w *watch) (api.ExecExit, error) {
	var stdout, stderr beginning
	end, err := w.Copy(&stdout, &stderr)
	if err != nil {
		return end, err
	}
	result := api.ExecResult{ExecExit: end, ExecID: w.id, StdoutTruncated: stdout.cut, StderrTruncated: stderr.cut}
	result.SetOutput(stdout.Bytes(), stderr.Bytes())
	return end, writeJSON(f.out, result)
}

// beginning keeps what is written to it first.
type beginning struct {
	bytes.Buffer
	cut bool
}

// Write takes everything and keeps what fits.
func (b *beginning) Write(p []byte) (int, error) {
	fits := min(len(p), mostCollected-b.Len())
	b.cut = b.cut || fits < len(p)
	_, _ = b.Buffer.Write(p[:fits])
	return len(p), nil
}
