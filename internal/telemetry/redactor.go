package telemetry

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
)

// Redacted is the text that replaces a secret without a name.
const Redacted = "[redacted]"

// minSecret is the minimum length of a secret. Shorter texts occur in ordinary words and numbers: redacting them would
// make logs unreadable, and readers could still guess the secrets.
const minSecret = 8

// Redactor removes known secrets from text in every form that [patterns] returns, and all texts with the form of an API
// key, known or not. It is safe for concurrent use; secrets can be added at any time. Its zero value knows no secrets.
//
// Redactor looks up patterns by their first eight bytes, so its speed does not depend on the number of patterns, and it
// reads a text only once.
type Redactor struct {
	mu     sync.RWMutex
	known  set
	filter [filterBits / 64]uint64
	byHead map[uint64][]pattern
	stems  map[uint64]struct{} // beginnings of all patterns, with one to seven bytes
}

// filterBits is the size of the filter in bits. The filter excludes most positions of a text without a map lookup, even
// with 1,000 secrets.
const filterBits = 1 << 18

// Add adds a secret without its surrounding white space. Each long line of a multi-line secret, such as a private key,
// is also added as a separate secret. Add returns false, without adding anything, if the secret is shorter than eight
// bytes.
func (r *Redactor) Add(secret string) bool { return r.addAs(secret, Redacted, patterns) }

// AddNamed is Add for a secret that is replaced by its name: [redacted:NAME]. It adds fewer forms of a long secret, so
// that its size is a small multiple of the secret's.
func (r *Redactor) AddNamed(name, secret string) bool {
	forms := patterns
	if len(secret) > maxAllForms {
		forms = fewPatterns
	}
	return r.addAs(secret, "[redacted:"+name+"]", forms)
}

// maxAllForms is the length of the longest named secret that is added in every form.
const maxAllForms = 512

func (r *Redactor) addAs(secret, mark string, forms func(string) []string) bool {
	secret = strings.TrimSpace(secret)
	if len(secret) < minSecret {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(secret, mark, forms)
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		if len(line) >= 2*minSecret && !strings.HasPrefix(line, "-----") {
			r.add(line, mark, forms)
		}
	}
	return true
}

func (r *Redactor) add(secret, mark string, forms func(string) []string) {
	if _, ok := r.known[secret]; ok {
		return
	}
	if r.known == nil {
		r.known, r.byHead, r.stems = set{}, map[uint64][]pattern{}, map[uint64]struct{}{}
	}
	r.known[secret] = struct{}{}
	for _, p := range forms(secret) {
		r.index(p, mark)
	}
}

// pattern is a text to replace, and its replacement.
type pattern struct{ text, mark string }

func (r *Redactor) index(p, mark string) {
	head := headOf(p)
	r.byHead[head] = append(r.byHead[head], pattern{p, mark})
	slot := slotOf(head)
	r.filter[slot/64] |= 1 << (slot % 64)
	for n := 1; n < minSecret; n++ {
		r.stems[stemOf(p[:n])] = struct{}{}
	}
}

// String returns s with every secret replaced by [Redacted] or its name. Overlapping secrets have one replacement.
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

// Span is a part of a text that secrets cover.
type Span struct {
	Start, End int
	Mark       string // the replacement
}

// Find returns the parts of the text that are secrets, in order. They do not overlap. open is the first position from
// which the text could be the beginning of a longer secret, if more text follows; len(text): none.
func (r *Redactor) Find(text []byte) (found []Span, open int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	open = len(text)
	for i := 0; i < len(text); i++ {
		if len(r.known) == 0 { // only keys are recognised
			next := bytes.IndexByte(text[i:], keyPrefix[0])
			if next < 0 {
				break
			}
			i += next
		}
		if len(text)-i >= minSecret && text[i] != keyPrefix[0] && !r.mayMatch(binary.LittleEndian.Uint64(text[i:])) {
			continue
		}
		m, begun := r.match(text[i:])
		if begun {
			open = min(open, i)
		}
		last := len(found) - 1
		switch {
		case m.length == 0:
		case last >= 0 && i < found[last].End:
			found[last].End = max(found[last].End, i+m.length)
		default:
			found = append(found, Span{i, i + m.length, m.mark})
		}
	}
	return found, open
}

// matched is the longest secret at the start of a text; the length is zero if there is none.
type matched struct {
	length int
	mark   string
}

// match returns the longest secret at the start of text. open reports whether text could be the beginning of a longer
// secret.
func (r *Redactor) match(text []byte) (m matched, open bool) {
	m, open = r.matchKnown(text)
	if text[0] != keyPrefix[0] {
		return m, open
	}
	key, begun := matchKey(text)
	if key > m.length {
		m = matched{key, Redacted}
	}
	return m, open || begun
}

func (r *Redactor) matchKnown(text []byte) (m matched, open bool) {
	if len(text) < minSecret {
		_, open = r.stems[stemOf(text)]
		return m, open
	}
	head := binary.LittleEndian.Uint64(text)
	if !r.mayMatch(head) {
		return m, false
	}
	for _, p := range r.byHead[head] {
		switch n := len(p.text); {
		case n <= len(text):
			if n > m.length && string(text[:n]) == p.text {
				m = matched{n, p.mark}
			}
		case p.text[:len(text)] == string(text):
			open = true
		}
	}
	return m, open
}

// scan is the state of one pass over a text that may arrive in pieces.
type scan struct {
	cover int // number of following bytes that belong to a secret that is already replaced
	found bool
	rest  []byte // bytes that cannot be checked before more text arrives
}

// run appends the redacted text to out. Unless final is set, it stops where a secret may begin and keeps the remaining
// text in rest.
func (s *scan) run(r *Redactor, out, text []byte, final bool) []byte {
	plain := 0 // start of the checked bytes that are not copied yet
	for i := range text {
		m, open := r.match(text[i:])
		if open && !final {
			s.rest = text[i:]
			return append(out, text[plain:max(plain, i)]...)
		}
		if m.length > 0 && s.cover == 0 {
			out = append(out, text[plain:i]...)
			out = append(out, m.mark...)
			s.found = true
		}
		s.cover = max(s.cover, m.length)
		if s.cover > 0 {
			s.cover--
			plain = i + 1
		}
	}
	s.rest = nil
	return append(out, text[plain:]...)
}

// mayMatch reports whether a pattern may begin with the eight bytes.
func (r *Redactor) mayMatch(head uint64) bool {
	slot := slotOf(head)
	return r.filter[slot/64]&(1<<(slot%64)) != 0
}

func headOf(p string) uint64 { return binary.LittleEndian.Uint64([]byte(p[:minSecret])) }

func slotOf(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> 46 }

// stemOf returns up to seven bytes and their number as one integer.
func stemOf[T string | []byte](text T) uint64 {
	var packed [8]byte
	copy(packed[:], text)
	packed[7] = byte(len(text))
	return binary.LittleEndian.Uint64(packed[:])
}
