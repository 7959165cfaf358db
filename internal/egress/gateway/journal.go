package gateway

import (
	"bytes"
	"encoding/json"
	"sync"
)

// maxLines bounds the log lines that wait for a server. Each sandbox may cause 30 a minute.
const maxLines = 1000

// line is a log record as JSON.
type line struct {
	Number int64           `json:"n"`
	Text   json.RawMessage `json:"text"`
}

// journal keeps log lines until a server has logged them.
type journal struct {
	mu      sync.Mutex
	lines   []line
	last    int64
	dropped int // lines that were not kept since the last take
}

// Write takes one line of a JSON handler.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == maxLines {
		j.lines = j.lines[1:]
		j.dropped++
	}
	j.last++
	j.lines = append(j.lines, line{j.last, bytes.TrimSpace(bytes.Clone(p))})
	return len(p), nil
}

// take forgets the lines up to seen and returns the others.
func (j *journal) take(seen int64) (lines []line, dropped int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.lines) > 0 && j.lines[0].Number <= seen {
		j.lines = j.lines[1:]
	}
	dropped, j.dropped = j.dropped, 0
	return append([]line(nil), j.lines...), dropped
}
