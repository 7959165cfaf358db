package fleet

import (
	"slices"
	"strings"
	"sync"
)

// tail is an io.Writer that keeps the last mostLog bytes of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const mostLog = 64 << 10

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if len(l.text) > 2*mostLog {
		l.text = slices.Clone(l.text[len(l.text)-mostLog:])
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text[max(0, len(l.text)-mostLog):]))
}
