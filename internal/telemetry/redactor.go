package telemetry

import (
	"encoding/binary"
	"strings"
	"sync"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// minSecret is the shortest secret worth hiding. Anything shorter is found in
// ordinary words and numbers all the time: hiding it would ruin logs, and whoever
// reads them could still guess it.
const minSecret = 8

// Redactor takes known secrets out of text, in every form [patterns] lists, and
// whatever has the form of an API key, known or not. It is safe for concurrent
// use; secrets can be added while it works. Its zero value knows no secret.
//
// Patterns are found by their first eight bytes, so adding one costs the same
// however many are known, and a text is passed over once.
type Redactor struct {
	mu     sync.RWMutex
	known  set
	filter [filterBits / 64]uint64
	byHead map[uint64][]string
	stems  map[uint64]struct{} // what a pattern may begin with, up to seven bytes
}

// filterBits sizes the table that rules out nearly every position of a text
// without a map lookup, at 1,000 secrets too.
const filterBits = 1 << 18

// Add makes a secret known, without the white space around it. Each line of a
// secret of several lines, such as a private key, counts as a secret of its own.
// It reports false, and does nothing, if the secret is shorter than eight bytes.
func (r *Redactor) Add(secret string) bool {
	secret = strings.TrimSpace(secret)
	if len(secret) < minSecret {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(secret)
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		if len(line) >= 2*minSecret && !strings.HasPrefix(line, "-----") {
			r.add(line)
		}
	}
	return true
}

func (r *Redactor) add(secret string) {
	if _, ok := r.known[secret]; ok {
		return
	}
	if r.known == nil {
		r.known, r.byHead, r.stems = set{}, map[uint64][]string{}, map[uint64]struct{}{}
	}
	r.known[secret] = struct{}{}
	for _, p := range patterns(secret) {
		r.index(p)
	}
}

func (r *Redactor) index(p string) {
	head := headOf(p)
	r.byHead[head] = append(r.byHead[head], p)
	slot := slotOf(head)
	r.filter[slot/64] |= 1 << (slot % 64)
	for n := 1; n < minSecret; n++ {
		r.stems[stemOf(p[:n])] = struct{}{}
	}
}

// String returns s with every secret replaced by [Redacted]. Overlapping
// secrets are replaced by one.
func (r *Redactor) String(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.known) == 0 && !strings.Contains(s, keyPrefix) {
		return s
	}
	var sc scan
	out := sc.run(r, nil, []byte(s), true)
	if !sc.found {
		return s
	}
	return string(out)
}

// match returns the length of the longest secret at the start of text, and
// whether a longer one could still come if text went on.
func (r *Redactor) match(text []byte) (length int, open bool) {
	length, open = r.matchKnown(text)
	if text[0] != keyPrefix[0] {
		return length, open
	}
	key, begun := matchKey(text)
	return max(length, key), open || begun
}

func (r *Redactor) matchKnown(text []byte) (length int, open bool) {
	if len(text) < minSecret {
		_, open = r.stems[stemOf(text)]
		return 0, open
	}
	head := binary.LittleEndian.Uint64(text)
	slot := slotOf(head)
	if r.filter[slot/64]&(1<<(slot%64)) == 0 {
		return 0, false
	}
	for _, p := range r.byHead[head] {
		switch {
		case len(p) <= len(text):
			if len(p) > length && string(text[:len(p)]) == p {
				length = len(p)
			}
		case p[:len(text)] == string(text):
			open = true
		}
	}
	return length, open
}

// scan is the state of one pass over a text that may come in pieces.
type scan struct {
	cover int // how many of the next bytes belong to a secret already replaced
	found bool
	rest  []byte // bytes that cannot be judged before more of the text is known
}

// run appends the redacted text to out. Unless final, it stops where a secret
// may have begun and keeps what is left in rest.
func (s *scan) run(r *Redactor, out, text []byte, final bool) []byte {
	plain := 0 // start of the bytes that are judged but not copied yet
	for i := range text {
		length, open := r.match(text[i:])
		if open && !final {
			s.rest = text[i:]
			return append(out, text[plain:max(plain, i)]...)
		}
		if length > 0 && s.cover == 0 {
			out = append(out, text[plain:i]...)
			out = append(out, Redacted...)
			s.found = true
		}
		s.cover = max(s.cover, length)
		if s.cover > 0 {
			s.cover--
			plain = i + 1
		}
	}
	s.rest = nil
	return append(out, text[plain:]...)
}

func headOf(p string) uint64 { return binary.LittleEndian.Uint64([]byte(p[:minSecret])) }

func slotOf(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> 46 }

// stemOf packs up to seven bytes and their number.
func stemOf[T string | []byte](text T) uint64 {
	var packed [8]byte
	copy(packed[:], text)
	packed[7] = byte(len(text))
	return binary.LittleEndian.Uint64(packed[:])
}
