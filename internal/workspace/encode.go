package workspace

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// Encode encodes the manifest as JSON.
func (m *Manifest) Encode() []byte {
	packs, number := m.packs()
	return m.encode(m.header(packs), number)
}

// encode encodes the manifest. A nil header gives a manifest of the plain layout without a history. Number maps an
// index into m.Packs to the pack's index in the header; it is negative for objects that are not packs.
func (m *Manifest) encode(header []byte, number []int) []byte {
	b := make([]byte, 0, 512+len(header)+len(m.Entries)*290)
	b = append(b, `{"version":"`+FormatVersion+`","last_synced_at":`...)
	b = strconv.AppendInt(b, m.At.Unix(), 10)
	if header != nil {
		b = append(b, `,"berth":`...)
		b = append(b, header...)
	}
	b = append(b, `,"files":[`...)
	b = m.appendAll(b, File, func(b []byte, e *Entry) []byte {
		if e.Size == 0 || header == nil {
			return appendFile(b, e, -1)
		}
		return appendFile(b, e, number[e.At.Pack])
	})
	b = append(b, `],"folders":[`...)
	b = m.appendAll(b, Folder, appendOther)
	b = append(b, `],"links":[`...)
	b = m.appendAll(b, Link, appendOther)
	return append(b, "]}\n"...)
}

// packs returns the packs for the header, and the index in the header of each pack of the manifest. Objects with a
// single file, as in the plain layout, are not in the header and have index -1.
func (m *Manifest) packs() (packs []wirePack, number []int) {
	packs, number = make([]wirePack, 0, len(m.Packs)), make([]int, len(m.Packs))
	for i, p := range m.Packs {
		number[i] = -1
		if checkPackKey(p.Key) == nil {
			number[i] = len(packs)
			packs = append(packs, wirePack(p))
		}
	}
	return packs, number
}

func (m *Manifest) header(packs []wirePack) []byte {
	w := wireBerth{ID: m.ID, Lineage: m.Lineage, Parent: m.Parent, Sequence: m.Sequence, Layout: m.Layout, Packs: packs}
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return text
}

func (m *Manifest) appendAll(b []byte, kind Kind, one func([]byte, *Entry) []byte) []byte {
	first := true
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == kind {
			if !first {
				b = append(b, ",\n"...)
			}
			first, b = false, one(b, e)
		}
	}
	return b
}

// appendFile appends a file. It writes the pack and offset only if pack is not negative.
func appendFile(b []byte, e *Entry, pack int) []byte {
	b = append(b, `{"path":`...)
	b = appendText(b, e.Path)
	b = append(b, `,"checksum":"`...)
	b = hex.AppendEncode(b, e.Sum.MD5[:])
	b = append(b, `","size":`...)
	b = strconv.AppendInt(b, e.Size, 10)
	b = append(b, `,"modified_at":`...)
	b = strconv.AppendInt(b, time.Unix(0, e.ModTime).Unix(), 10)
	if e.Sum.SHA256 != none.SHA256 {
		b = append(b, `,"sha256":"`...)
		b = hex.AppendEncode(b, e.Sum.SHA256[:])
		b = append(b, '"')
	}
	b = append(b, `,"mtime_ns":`...)
	b = strconv.AppendInt(b, e.ModTime, 10)
	b = append(b, `,"mode":`...)
	b = strconv.AppendUint(b, uint64(e.Mode), 10)
	if pack >= 0 {
		b = append(b, `,"pack":`...)
		b = strconv.AppendInt(b, int64(pack), 10)
		b = append(b, `,"offset":`...)
		b = strconv.AppendInt(b, e.At.Offset, 10)
	}
	return append(b, '}')
}

func appendOther(b []byte, e *Entry) []byte {
	b = append(b, `{"path":`...)
	b = appendText(b, e.Path)
	b = append(b, `,"mode":`...)
	b = strconv.AppendUint(b, uint64(e.Mode), 10)
	b = append(b, `,"mtime_ns":`...)
	b = strconv.AppendInt(b, e.ModTime, 10)
	if e.Kind == Link {
		b = append(b, `,"target":`...)
		b = appendText(b, e.Target)
	}
	return append(b, '}')
}

// appendText appends a string as JSON. Bytes that are not UTF-8 are escaped by escapeBytes.
func appendText(b []byte, s string) []byte {
	if simple(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, err := json.Marshal(escapeBytes(s))
	if err != nil {
		panic(err) // strings always marshal
	}
	return append(b, text...)
}

// simple reports whether a string is printable ASCII that needs no escaping in JSON.
func simple(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}
