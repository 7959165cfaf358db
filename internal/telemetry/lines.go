package telemetry

import (
	"io"
	"sync"
)

// lines redacts log lines and writes them in batches. A slog handler calls Write under a lock that all loggers of the
// program share, so Write only collects the line. contextHandler calls flush outside of that lock.
//
// Redacting and writing under the shared lock made 64 concurrent callers wait for each other.
type lines struct {
	w      io.Writer
	r      *Redactor
	repair func(line string) []byte // makes a line valid again after redaction changed it

	mu   sync.Mutex
	now  *batch // the batch being written
	next *batch // the batch that collects new lines
}

// batch is a group of lines that is written with one system call.
type batch struct {
	lines []string
	done  chan struct{}
	err   error // valid after done is closed
}

// Write adds one line to the next batch. A slog handler calls Write once per record.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &batch{done: make(chan struct{})}
	}
	l.next.lines = append(l.next.lines, string(line))
	return len(line), nil
}

// flush returns when all lines collected before the call are written. The first caller writes the batch; the lines of
// other callers are collected for the next batch, and these callers wait.
func (l *lines) flush() error {
	l.mu.Lock()
	mine := l.now == nil && l.next != nil
	if mine {
		l.now, l.next = l.next, nil
	}
	b := l.next
	if b == nil {
		b = l.now
	}
	l.mu.Unlock()
	if b == nil {
		return nil
	}
	if mine {
		l.write(b)
	}
	<-b.done
	return b.err
}

// write writes the batch, then starts to write the lines collected during the write, if there are any.
func (l *lines) write(b *batch) {
	var out []byte
	for _, line := range b.lines {
		out = append(out, l.redacted(line)...)
	}
	_, b.err = l.w.Write(out)
	l.mu.Lock()
	l.now, l.next = l.next, nil
	more := l.now
	l.mu.Unlock()
	close(b.done)
	if more != nil {
		go l.write(more)
	}
}

func (l *lines) redacted(line string) []byte {
	if after := l.r.String(line); after != line {
		return l.repair(after)
	}
	return []byte(line)
}
