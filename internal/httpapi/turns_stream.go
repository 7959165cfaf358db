package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/berthdev/berth/api"
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
	case seq > t.Seq:
		return 0, invalidField(where, "there is no such event yet")
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
	if out.comment() != nil {
		return
	}
	relay(ctx, a, out, pump(ctx, a.Turns.Events(ctx, t, after)), func(p piece[turn.Event]) (last bool, err error) {
		return sendTurnEvent(ctx, out, t.ID, p, raw)
	})
}

// sendTurnEvent sends one event. What is no part of the log has no id: the reader's place stays.
func sendTurnEvent(ctx context.Context, out *events, id string, p piece[turn.Event], raw bool) (last bool, err error) {
	if p.err != nil {
		problem := problemOf(ctx, p.err)
		return true, out.send("", api.TurnEvent{Type: api.EventTurnError, Code: problem.Code, Message: problem.Detail})
	}
	data := p.value.Data
	if !raw {
		data = withoutRaw(data)
	}
	if p.value.Seq == 0 {
		return true, out.sendJSON("", data)
	}
	return false, out.sendJSON(api.EventID(id, p.value.Seq), data)
}

var rawField = []byte(`,"raw":`)

// withoutRaw takes out what the agent itself wrote.
func withoutRaw(data []byte) []byte {
	if !bytes.Contains(data, rawField) {
		return data
	}
	var e api.TurnEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return data // it is none of ours
	}
	e.Raw = nil
	clean, err := json.Marshal(e)
	if err != nil {
		return data
	}
	return clean
}
