package telemetry

import (
	"io"
	"sync"
)

// lines redacts log lines and writes them, many at once when many are logged at once. A slog handler calls Write
// under a lock that all of a program's loggers share, so Write only collects the line. The handler around it
// calls flush outside of that lock.
//
// Redaction and the system call under the shared lock made 64 callers queue for it, each woken in turn.
type lines struct {
	w    io.Writer
	r    *Redactor
	mend func(line string) []byte // repairs a line that redaction changed

	mu   sync.Mutex
	now  *batch // is being written
	next *batch // collects
}

// batch is lines that are written with one system call.
type batch struct {
	lines []string
	done  chan struct{}
	err   error // once done
}

// Write collects one line: a slog handler makes one Write of each record.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &batch{done: make(chan struct{})}
	}
	l.next.lines = append(l.next.lines, string(line))
	return len(line), nil
}

// flush returns when every line collected before the call is written. The first caller writes; the others wait
// for it, and their lines are the next batch.
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

// write writes the batch that is now, and has the one that was collected during it written as well.
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
		return l.mend(after)
	}
	return []byte(line)
}
