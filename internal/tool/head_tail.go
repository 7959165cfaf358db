package tool

import (
	"fmt"
	"sync"

	"github.com/berthdev/berth/internal/fault"
)

// headTail keeps the beginning and the end of an output, which are its most useful parts.
type headTail struct {
	mu   sync.Mutex
	head []byte // the first keep bytes
	tail []byte // the last keep or more of the bytes after head
	size int64  // the size of the whole output
}

// keep is the number of bytes that headTail keeps at each end.
const keep = maxText

// Write never fails, so that no command ends because of the size of its output.
func (t *headTail) Write(p []byte) (int, error) {
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

// text returns the output if its size is not larger than most. Otherwise it returns the beginning and the end, with a
// total size of most, and a note about the omitted bytes between them.
func (t *headTail) text(most int) (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size <= int64(most) {
		return plain(string(t.head) + string(t.tail)), false
	}
	first, last := string(t.head), string(t.tail)
	if t.size <= 2*keep { // head and tail have all bytes
		last = first + last
	}
	first = first[:fault.RuneEdge(first, most/2)]
	if from := len(last) - most/2; from > 0 {
		last = last[fault.RuneEdge(last, from):]
	}
	left := t.size - int64(len(first)+len(last))
	return fmt.Sprintf("%s\n… [%d bytes left out here] …\n%s", plain(first), left, plain(last)), true
}

// share divides the size of one answer between two outputs. An output that needs less than half leaves the rest to the
// other.
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
