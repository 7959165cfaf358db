package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// cursor is a place in one list. On the wire it is opaque, and checked: one that was cut, changed or
// taken from another list is refused instead of reading from somewhere else.
type cursor struct {
	list string // which list it belongs to
	at   int64  // microseconds since 1970, or an entry's number
	id   string
}

// maxCursorTime is the year 10000: databases refuse times much beyond.
const maxCursorTime = 253402300800_000000

func (c cursor) String() string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(c.at))
	raw = append(raw, c.id...)
	raw = binary.BigEndian.AppendUint32(raw, c.sum(raw))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (c cursor) sum(raw []byte) uint32 {
	return crc32.ChecksumIEEE(append([]byte(c.list+"\x00"), raw...))
}

// parseCursor reads a cursor of the named list; empty text is the beginning.
func parseCursor(list, text string) (cursor, error) {
	c := cursor{list: list}
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 8+4 {
		return c, badCursor()
	}
	body, sum := raw[:len(raw)-4], binary.BigEndian.Uint32(raw[len(raw)-4:])
	c.at, c.id = int64(binary.BigEndian.Uint64(body)), string(body[8:])
	if c.sum(body) != sum || c.at < 0 || c.at >= maxCursorTime || !isID(c.id) {
		return c, badCursor()
	}
	return c, nil
}

func isID(s string) bool {
	id, err := sandbox.ParseID(s)
	return err == nil && id == s
}

func badCursor() error {
	return sandbox.Errorf("", api.CodeInvalidCursor, "the cursor does not belong to this list, or was changed")
}

// storePage turns the parameters of a list into what the store takes.
func (p Paging) storePage(list string) (store.Page, error) {
	c, err := parseCursor(list, p.Cursor)
	if err != nil {
		return store.Page{}, err
	}
	out := store.Page{Limit: p.Limit}
	if c.id != "" {
		out.After = store.Position{CreatedAt: time.UnixMicro(c.at).UTC(), ID: c.id}
	}
	return out, nil
}

// listOf makes the answer of a list from what the store returned.
func listOf[Row, Wire any](list string, rows []Row, next store.Position, convert func(Row) Wire) *reply[api.List[Wire]] {
	out := &reply[api.List[Wire]]{Body: api.List[Wire]{Items: make([]Wire, 0, len(rows))}}
	for _, row := range rows {
		out.Body.Items = append(out.Body.Items, convert(row))
	}
	if !next.IsZero() {
		out.Body.NextCursor = cursor{list, next.CreatedAt.UnixMicro(), strings.ToLower(next.ID)}.String()
	}
	return out
}
