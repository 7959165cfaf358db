package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/ahead"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/turn"
)

// watchTurn answers GET …/turns/{turn_id}/events.
func (a *Handler) watchTurn(w http.ResponseWriter, r *http.Request) {
	err := readQuery(r, "after", "raw")
	var raw bool
	if err == nil {
		raw, err = flag(r, "raw")
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
		fail(w, r, err)
	case t.Finished() && after == t.Seq:
		w.WriteHeader(http.StatusNoContent)
	default:
		a.streamTurn(w, r, t, after, raw)
	}
}

// turnCursor is the number of the event that the caller saw last. What EventSource remembers is newer than
// the address that it was made with. A place in another turn is refused: its numbers mean other events.
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
		return 0, invalidField(where, "expected the id of an event of this turn")
	case seq > t.Seq && t.Finished(): // while it runs, a database that crashed may have forgotten it, and has it soon again
		return 0, invalidField(where, "there is no such event")
	}
	return seq, nil
}

// streamTurn sends the turn's events behind a number until the turn has finished, its client or the server
// goes. The turn waits for no reader: what is not sent yet lies in its log.
func (a *Handler) streamTurn(w http.ResponseWriter, r *http.Request, t store.Turn, after int64, raw bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	tellTurn(w, t)
	out := newEvents(w)
	defer out.done()
	out.comment()
	if out.flush() != nil {
		return
	}
	pieces := ahead.Read(ctx, a.Turns.Events(ctx, t, after), func(e turn.Event) int { return len(e.Data) })
	relay(ctx, a, out, pieces, func(p ahead.Piece[turn.Event]) (last bool, err error) {
		return addTurnEvent(ctx, out, t.ID, p, raw)
	})
}

// addTurnEvent adds one event. What is no part of the log has no id: the reader's place stays.
func addTurnEvent(ctx context.Context, out *events, id string, p ahead.Piece[turn.Event], raw bool) (last bool, err error) {
	if p.Err != nil {
		problem := problemOf(ctx, p.Err)
		return true, out.add("", api.TurnEvent{Type: api.EventTurnError, Code: problem.Code, Message: problem.Detail})
	}
	head, tail := p.Value.Data, []byte(nil)
	if !raw {
		head, tail = withoutRaw(p.Value.Data)
	}
	if p.Value.Seq == 0 {
		return true, out.addJSON("", head, tail)
	}
	return false, out.addJSON(api.EventID(id, p.Value.Seq), head, tail)
}
