package conversations

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/readahead"
	"github.com/berthdev/berth/internal/store"
)

var rawField = []byte(`,"raw":`)

// withoutRaw returns a stored event without the field raw: the parts before and after the field. It does not decode
// the event, because it runs for every event of every reader. Data that does not look like an event is returned
// unchanged.
func withoutRaw(data []byte) (head, tail []byte) {
	if !bytes.Contains(data, rawField) || data[0] != '{' {
		return data, nil
	}
	begin := 0
	for !bytes.HasPrefix(data[begin:], rawField) {
		if begin = endOfMember(data, begin+1); begin == len(data) || data[begin] != ',' {
			return data, nil
		}
	}
	end := endOfMember(data, begin+len(rawField))
	if end == len(data) || data[end] == ']' {
		return data, nil
	}
	return data[:begin], data[end:]
}

// endOfMember returns the end of the object member at an offset: the comma or the bracket after it, or the end of the
// data. The offset must not be inside a string.
func endOfMember(data []byte, at int) int {
	for depth := 0; at < len(data); at++ {
		switch data[at] {
		case '"':
			at = endOfText(data, at)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
		case ',':
			if depth == 0 {
				return at
			}
		}
	}
	return len(data)
}

// endOfText returns the offset of the closing quote of the string that begins at an offset, or the end of the data.
func endOfText(data []byte, at int) int {
	for at++; ; at++ {
		next := bytes.IndexByte(data[at:], '"')
		if next < 0 {
			return len(data)
		}
		slashes := 0
		for at += next; data[at-slashes-1] == '\\'; slashes++ {
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

// watchTurn answers GET …/turns/{turn_id}/events.
func (a *handlers) watchTurn(w http.ResponseWriter, r *http.Request) {
	err := rest.ReadQuery(r, "after", "raw")
	var raw bool
	if err == nil {
		raw, err = rest.Flag(r, "raw")
	}
	var t store.Turn
	if err == nil {
		t, err = a.findTurn(r.Context(), r.PathValue("id"), r.PathValue("turn_id"))
	}
	var after int64
	if err == nil {
		after, err = turnCursor(r, t)
	}
	switch {
	case err != nil:
		exchange.Fail(w, r, err)
	case t.Finished() && after == t.Seq:
		w.WriteHeader(http.StatusNoContent)
	default:
		a.streamTurn(w, r, t, after, raw)
	}
}

// turnCursor returns the number of the last event that the client has read. Last-Event-ID takes precedence over the
// query: an EventSource that connects again sends its first URL again. The id of an event of another turn is refused.
func turnCursor(r *http.Request, t store.Turn) (int64, error) {
	where, text := "header.Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		where, text = "query.after", r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	id := text
	if !strings.Contains(text, ".") && where == "query.after" { // the number alone
		id = t.ID + "." + text
	}
	of, seq, err := api.ParseEventID(id)
	switch {
	case err != nil || !strings.EqualFold(of, t.ID):
		return 0, exchange.InvalidField(where, "expected the id of an event of this turn")
	case seq > t.Seq && t.Finished(): // a database that crashed may have lost the last events of a running turn, which are soon stored again
		return 0, exchange.InvalidField(where, "there is no such event")
	}
	return seq, nil
}

// streamTurn sends the turn's events after a number until the turn has finished, the client disconnects or the server
// drains. The turn does not wait for readers: unsent events are in its log.
func (a *handlers) streamTurn(w http.ResponseWriter, r *http.Request, t store.Turn, after int64, raw bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	setTurnHeaders(w, t)
	out := stream.NewWriter(w)
	defer out.Done()
	out.Comment()
	if out.Flush() != nil {
		return
	}
	pieces := readahead.Read(ctx, a.Chat.Events(ctx, t, after), func(e chat.Event) int { return len(e.Data) })
	stream.Relay(ctx, a.Ending, out, pieces, func(p readahead.Piece[chat.Event]) (last bool, err error) {
		return addTurnEvent(ctx, out, t.ID, p, raw)
	})
}

// addTurnEvent adds one event. An event outside of the log has no id, so that the reader's position does not change.
func addTurnEvent(ctx context.Context, out *stream.Writer, id string, p readahead.Piece[chat.Event], raw bool) (last bool, err error) {
	if p.Err != nil {
		problem := exchange.ProblemOf(ctx, p.Err)
		return true, out.Add("", api.TurnEvent{Type: api.EventTurnError, Code: problem.Code, Message: problem.Detail})
	}
	head, tail := p.Value.Data, []byte(nil)
	if !raw {
		head, tail = withoutRaw(p.Value.Data)
	}
	if p.Value.Seq == 0 {
		return true, out.AddJSON("", head, tail)
	}
	return false, out.AddJSON(api.EventID(id, p.Value.Seq), head, tail)
}
