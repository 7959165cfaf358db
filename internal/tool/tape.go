package tool

import (
	"fmt"
	"sync"
)

// tape keeps the beginning and the end of what is written to it: of a long output those tell the most.
type tape struct {
	mu   sync.Mutex
	head []byte // the first keep bytes
	tail []byte // of what came behind them, the last keep or more
	size int64  // of all
}

const keep = maxText

// Write never fails: a command is not to be ended by how much it writes.
func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size += int64(len(p))
	n := min(keep-len(t.head), len(p))
	t.head = append(t.head, p[:n]...)
	if rest := p[n:]; len(rest) >= keep {
		t.tail = append(t.tail[:0], rest[len(rest)-keep:]...)
	} else {
		if len(t.tail)+len(rest) > 4*keep {
			t.tail = append(t.tail[:0], t.tail[len(t.tail)-keep:]...)
		}
		t.tail = append(t.tail, rest...)
	}
	return len(p), nil
}

// text is what was written, in at most so many bytes and a remark about what is left out.
func (t *tape) text(most int) (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size <= int64(most) {
		return plain(string(t.head) + string(t.tail)), false
	}
	first, last := string(t.head), string(t.tail)
	if t.size <= 2*keep { // nothing of it was forgotten
		last = first + last
	}
	first = first[:edge(first, most/2)]
	if from := len(last) - most/2; from > 0 {
		last = last[edge(last, from):]
	}
	left := t.size - int64(len(first)+len(last))
	return fmt.Sprintf("%s\n… [%d bytes left out here] …\n%s", plain(first), left, plain(last)), true
}

// share divides the room of one answer between two outputs: what one does not need the other has.
func share(a, b int64) (forA, forB int) {
	const room, half = maxText - notes, (maxText - notes) / 2
	switch {
	case a <= half:
		return int(a), room - int(a)
	case b <= half:
		return room - int(b), int(b)
	}
	return half, half
}
