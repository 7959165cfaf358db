package workspace

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/json"
	"strings"
)

// decodeFast reads a manifest in exactly the form that Encode writes, several times faster than [decoded.read]. If
// ok is false, the caller must use decoded.read.
func decodeFast(text []byte) (d *decoded, ok bool) {
	r := &manifestReader{s: string(text)}
	d = &decoded{version: FormatVersion, berth: new(wireBerth)}
	r.lit(`{"version":"` + FormatVersion + `","last_synced_at":`)
	d.synced = r.int()
	r.lit(`,"berth":`)
	r.header(d.berth)
	r.lit(`,"files":[`)
	d.files = r.list(File)
	r.lit(`],"folders":[`)
	d.folders = r.list(Folder)
	r.lit(`],"links":[`)
	d.links = r.list(Link)
	r.lit("]}\n")
	return d, !r.failed && r.s == ""
}

// manifestReader reads expected tokens from a text. After the first mismatch, failed is true and all reads return
// zero values.
type manifestReader struct {
	s      string
	failed bool
}

func (r *manifestReader) lit(want string) {
	if !r.skip(want) {
		r.failed = true
	}
}

func (r *manifestReader) skip(want string) bool {
	if r.failed || !strings.HasPrefix(r.s, want) {
		return false
	}
	r.s = r.s[len(want):]
	return true
}

// int reads a number of at most 19 digits. A longer number fails, and the general reader must parse it.
func (r *manifestReader) int() (n int64) {
	negative := r.skip("-")
	i := 0
	for ; i < len(r.s) && r.s[i] >= '0' && r.s[i] <= '9'; i++ {
		if i == 19 {
			r.failed = true
			return 0
		}
		n = 10*n + int64(r.s[i]-'0')
	}
	if i == 0 || i > 1 && r.s[0] == '0' || n < 0 {
		r.failed = true
		return 0
	}
	r.s = r.s[i:]
	if negative {
		n = -n
	}
	return n
}

func (r *manifestReader) mode() uint32 {
	n := r.int()
	if n < 0 || n > 0o777 {
		r.failed = true
	}
	return uint32(n) & 0o777
}

// text reads a string that appendText wrote.
func (r *manifestReader) text() string {
	r.lit(`"`)
	end := strings.IndexByte(r.s, '"')
	if r.failed || end < 0 {
		r.failed = true
		return ""
	}
	if s := r.s[:end]; simple(s) {
		r.s = r.s[end+1:]
		return s
	}
	return r.escapedText()
}

// escapedText reads the rest of a string with escapes. The opening quote was already read.
func (r *manifestReader) escapedText() (s string) {
	for i := 0; i < len(r.s); i++ {
		switch r.s[i] {
		case '\\':
			i++
		case '"':
			r.failed = json.Unmarshal([]byte(`"`+r.s[:i+1]), &s) != nil
			r.s = r.s[i+1:]
			return unescapeBytes(s)
		}
	}
	r.failed = true
	return ""
}

func (r *manifestReader) hex(to []byte) {
	n := 2 * len(to)
	if r.failed || len(r.s) < n || !unhexLower(to, r.s[:n]) {
		r.failed = true
		return
	}
	r.s = r.s[n:]
}

func unhexLower(to []byte, text string) bool {
	for i := range to {
		hi, lo := nibbles[text[2*i]], nibbles[text[2*i+1]]
		if hi|lo > 15 {
			return false
		}
		to[i] = hi<<4 | lo
	}
	return true
}

// nibbles maps the character of a lower-case hexadecimal digit to its value, and every other byte to 0xff.
var nibbles = func() (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		table[c] = byte(i)
	}
	return table
}()

// header reads the value of "berth" with the JSON decoder, because it is small.
func (r *manifestReader) header(to *wireBerth) {
	end := strings.Index(r.s, `,"files":[`)
	if r.failed || end < 0 || json.Unmarshal([]byte(r.s[:end]), to) != nil || len(to.Packs) > maxPacks {
		r.failed = true
		return
	}
	r.s = r.s[end:]
}

// list reads the entries of one kind.
func (r *manifestReader) list(kind Kind) []Entry {
	var list []Entry
	if kind == File && !r.failed {
		list = make([]Entry, 0, min(strings.Count(r.s, "\n"), maxEntries))
	}
	for r.skip(`{"path":`) {
		if len(list) == maxEntries {
			r.failed = true
			break
		}
		list = append(list, Entry{Path: r.text(), Kind: kind})
		if e := &list[len(list)-1]; kind == File {
			r.file(e)
		} else {
			r.other(e)
		}
		r.lit("}")
		if !r.skip(",\n") {
			break
		}
	}
	return list
}

func (r *manifestReader) file(e *Entry) {
	r.lit(`,"checksum":"`)
	r.hex(e.Sum.MD5[:md5.Size])
	r.lit(`","size":`)
	e.Size = r.int()
	r.lit(`,"modified_at":`)
	r.int()
	if r.skip(`,"sha256":"`) {
		r.hex(e.Sum.SHA256[:sha256.Size])
		r.lit(`"`)
	}
	r.lit(`,"mtime_ns":`)
	e.ModTime = r.int()
	r.lit(`,"mode":`)
	e.Mode = r.mode()
	if e.At.Pack = -1; r.skip(`,"pack":`) {
		e.At.Pack = int(r.int())
		r.lit(`,"offset":`)
		e.At.Offset = r.int()
	}
}

func (r *manifestReader) other(e *Entry) {
	r.lit(`,"mode":`)
	e.Mode = r.mode()
	r.lit(`,"mtime_ns":`)
	e.ModTime = r.int()
	if e.Kind == Link {
		e.Mode = 0o777
		r.lit(`,"target":`)
		e.Target = r.text()
	}
}
