package slacktest

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// socket is a connection of Socket Mode.
type socket struct {
	conn *websocket.Conn
	gone chan struct{}

	mu   sync.Mutex
	acks map[string]chan struct{}
}

// pingEvery is the time between two pings. Clients reconnect when none comes.
const pingEvery = 5 * time.Second

// serveSocket is the server of Socket Mode. A ticket is good for one connection.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	t := s.teams[r.URL.Query().Get("team")]
	ticket := r.URL.Query().Get("ticket")
	good := t != nil && t.tickets[ticket]
	if good {
		delete(t.tickets, ticket)
	}
	s.mu.Unlock()
	if !good {
		http.Error(w, "the ticket is not good", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	k := &socket{conn: conn, gone: make(chan struct{}), acks: map[string]chan struct{}{}}
	s.mu.Lock()
	number := len(t.sockets) + 1
	s.mu.Unlock()
	if k.send(s.ctx, obj{"type": "hello", "num_connections": number, "debug_info": obj{"host": "applink", "approximate_connection_time": 18060}, "connection_info": obj{"app_id": t.AppID}}) != nil {
		return
	}
	s.mu.Lock()
	t.sockets = append(t.sockets, k)
	s.mu.Unlock()
	defer func() {
		close(k.gone)
		s.mu.Lock()
		defer s.mu.Unlock()
		t.sockets = slices.DeleteFunc(t.sockets, func(o *socket) bool { return o == k })
	}()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.work.Go(func() { k.ping(ctx) })
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		k.receive(data)
	}
}

func (k *socket) ping(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pingEvery):
		}
		if k.conn.Ping(ctx) != nil {
			return
		}
	}
}

func (k *socket) send(ctx context.Context, message obj) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return k.conn.Write(ctx, websocket.MessageText, data)
}

// receive takes an acknowledgement.
func (k *socket) receive(data []byte) {
	var ack struct {
		ID string `json:"envelope_id"`
	}
	if json.Unmarshal(data, &ack) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.acks[ack.ID]; c != nil {
		delete(k.acks, ack.ID)
		close(c)
	}
}

// Connections returns the number of open connections of Socket Mode.
func (t *Team) Connections() int {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return len(t.sockets)
}

// Refresh asks all connections to be made again, as Slack does every few hours, and closes them.
func (t *Team) Refresh() {
	for _, k := range t.forget() {
		_ = k.send(t.server.ctx, obj{"type": "disconnect", "reason": "refresh_requested", "debug_info": obj{"host": "applink"}})
		_ = k.conn.Close(websocket.StatusNormalClosure, "")
	}
}

// Break breaks all connections without a word.
func (t *Team) Break() {
	for _, k := range t.forget() {
		_ = k.conn.CloseNow()
	}
}

// forget returns all connections, and sends nothing on them from now on.
func (t *Team) forget() []*socket {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	all := t.sockets
	t.sockets = nil
	return all
}

func (t *Team) open() []*socket {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return slices.Clone(t.sockets)
}

// deliverSocket sends an envelope to one of the app's connections and waits for its acknowledgement. Without a
// connection it waits for one.
func (t *Team) deliverSocket(ctx context.Context, e *envelope, n int) bool {
	all := t.open()
	for len(all) == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
		all = t.open()
	}
	k := all[rand.IntN(len(all))]
	t.server.mu.Lock()
	id := t.server.id("env")
	e.sent++
	t.server.mu.Unlock()
	acked := make(chan struct{})
	k.mu.Lock()
	k.acks[id] = acked
	k.mu.Unlock()
	message := obj{"envelope_id": id, "type": e.kind, "payload": e.payload, "accepts_response_payload": e.kind == "interactive"}
	if e.kind == "events_api" {
		message["retry_attempt"], message["retry_reason"] = n, ""
		if n > 0 {
			message["retry_reason"] = "timeout"
		}
	}
	if k.send(ctx, message) != nil {
		return false
	}
	select {
	case <-acked:
		return true
	case <-k.gone:
	case <-ctx.Done():
	case <-time.After(t.server.AckTime):
	}
	return false
}
