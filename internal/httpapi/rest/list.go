package rest

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Cursor is a position in one list. Clients see it as an opaque text with a checksum: a cursor that was cut, changed
// or taken from another list is refused.
type Cursor struct {
	List string // the name of the list
	At   int64  // microseconds since 1970, or an entry's number
	ID   string
}

// maxCursorTime is the year 10000. Databases refuse much later times.
const maxCursorTime = 253402300800_000000

func (c Cursor) String() string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(c.At))
	raw = append(raw, sandbox.PublicID(c.ID)...)
	raw = binary.BigEndian.AppendUint32(raw, c.sum(raw))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (c Cursor) sum(raw []byte) uint32 {
	return crc32.ChecksumIEEE(append([]byte(c.List+"\x00"), raw...))
}

// ParseCursor parses a cursor of the named list. An empty text is the beginning of the list.
func ParseCursor(list, text string) (Cursor, error) {
	c := Cursor{List: list}
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 8+4 {
		return c, BadCursor()
	}
	body, sum := raw[:len(raw)-4], binary.BigEndian.Uint32(raw[len(raw)-4:])
	c.At, c.ID = int64(binary.BigEndian.Uint64(body)), string(body[8:])
	if c.sum(body) != sum || c.At < 0 || c.At >= maxCursorTime || !isID(c.ID) {
		return c, BadCursor()
	}
	return c, nil
}

func isID(s string) bool {
	id, err := sandbox.ParseID(s)
	return err == nil && id == s
}

// BadCursor returns the error for a cursor that cannot be used.
func BadCursor() error {
	return fault.Errorf("", api.CodeInvalidCursor, "the cursor does not belong to this list, or was changed")
}

// StorePage converts the parameters of a list to a page of the store.
func (p Paging) StorePage(list string) (store.Page, error) {
	c, err := ParseCursor(list, p.Cursor)
	if err != nil {
		return store.Page{}, err
	}
	out := store.Page{Limit: p.Limit}
	if c.ID != "" {
		out.After = store.Position{CreatedAt: time.UnixMicro(c.At).UTC(), ID: c.ID}
	}
	return out, nil
}

// ListOf converts rows of the store to the answer of a list.
func ListOf[Row, Wire any](list string, rows []Row, next store.Position, convert func(Row) Wire) *Reply[api.List[Wire]] {
	out := &Reply[api.List[Wire]]{Body: api.List[Wire]{Items: make([]Wire, 0, len(rows))}}
	for _, row := range rows {
		out.Body.Items = append(out.Body.Items, convert(row))
	}
	if !next.IsZero() {
		out.Body.NextCursor = Cursor{list, next.CreatedAt.UnixMicro(), strings.ToLower(next.ID)}.String()
	}
	return out
}

// Reply is an answer that has only a body.
type Reply[T any] struct{ Body T }

// Created is the answer to a POST that creates a resource.
type Created[T any] struct {
	Status   int
	Location string `header:"Location" doc:"The URL of the resource"`
	Body     T
}

// Paging has the parameters of every list. It is exported because huma ignores unexported embedded structs.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items"`
	Cursor string `query:"cursor" maxLength:"1024" doc:"The next_cursor of the previous page"`
}

// Deleted is the answer to a delete. Body is nil if nothing is left; otherwise it is the resource, and the delete
// continues in the background.
type Deleted[T any] struct {
	Status int
	Body   *T
}
