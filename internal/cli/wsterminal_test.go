package cli

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
)

// terminal serves a terminal as the API does.
func (m *machine) terminal(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Has("exec_id") && m.refuses(w) {
		return
	}
	var p *testProcess
	size := api.TermSize{}
	_, _ = fmt.Sscan(q.Get("cols"), &size.Cols)
	_, _ = fmt.Sscan(q.Get("rows"), &size.Rows)
	if id := q.Get("exec_id"); id == "" {
		p = m.start(api.Exec{Command: api.LoginShell(), User: q.Get("user"), Terminal: &size})
	} else if p = m.find(id); p == nil {
		refuse(w, api.CodeNoSuchExec, fmt.Sprintf("there is no command %q", id))
		return
	}
	p.resize(p.term, size)
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.TerminalProtocol}})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	word := func(word api.TerminalWord) {
		data, _ := json.Marshal(word)
		_ = ws.Write(r.Context(), websocket.MessageText, data)
	}
	word(api.TerminalWord{Type: api.TermAttached, ExecID: p.id, Notice: m.notice})
	go func() {
		for {
			kind, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var said api.TerminalWord
			switch {
			case kind == websocket.MessageBinary:
				_, _ = p.input.Write(data)
			case json.Unmarshal(data, &said) == nil && said.Type == api.TermResize:
				p.resize(p.term, api.TermSize{Cols: said.Cols, Rows: said.Rows})
			}
		}
	}()
	m.mu.Lock()
	cut := m.cut > 0
	m.cut--
	m.mu.Unlock()
	p.from(r, 0, func(e api.ExecEvent) bool {
		if e.ExecExit != nil {
			word(api.TerminalWord{Type: api.TermExit, ExecExit: e.ExecExit})
			_ = ws.Close(websocket.StatusNormalClosure, "")
			return false
		}
		if len(e.Data()) > 0 {
			_ = ws.Write(r.Context(), websocket.MessageBinary, e.Data())
			if cut {
				_ = ws.CloseNow()
			}
		}
		return true
	})
}
