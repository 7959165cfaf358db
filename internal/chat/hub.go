package chat

import "sync"

// hub announces stored events to readers in this process. It keeps the newest events of turns that have readers, so
// that those readers rarely query the database.
type hub struct {
	mu    sync.Mutex
	turns map[string]*recent
}

// recent holds the newest events of a turn.
type recent struct {
	readers int
	first   int64 // the number of events[0]
	events  [][]byte
	bytes   int
	news    chan struct{} // closed and replaced when there is something to read
}

// hubBytes is the number of bytes of a turn's newest events that a hub keeps.
const hubBytes = 64 << 10

func newHub() *hub { return &hub{turns: map[string]*recent{}} }

// join registers a reader of the turn until leave is called.
func (h *hub) join(turn string) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.turns[turn]
	if r == nil {
		r = &recent{news: make(chan struct{})}
		h.turns[turn] = r
	}
	r.readers++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if r.readers--; r.readers == 0 {
			delete(h.turns, turn)
		}
	}
}

// publish announces stored events to the turn's readers. first is the number of the first event.
func (h *hub) publish(turn string, first int64, events [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.turns[turn]
	if r == nil {
		return
	}
	if first != r.first+int64(len(r.events)) { // another process stored the events in between
		r.first, r.events, r.bytes = first, nil, 0
	}
	for _, e := range events {
		r.events = append(r.events, e)
		r.bytes += len(e)
	}
	for r.bytes > hubBytes && len(r.events) > 1 {
		r.bytes -= len(r.events[0])
		r.events = r.events[1:]
		r.first++
	}
	r.announce()
}

// nudge wakes the turn's readers.
func (h *hub) nudge(turn string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.turns[turn]; r != nil {
		r.announce()
	}
}

func (r *recent) announce() {
	close(r.news)
	r.news = make(chan struct{})
}

// since returns the events after a number if the hub has all of them, and a channel that is closed at the next
// announcement. The caller must have joined.
func (h *hub) since(turn string, after int64) ([][]byte, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.turns[turn]
	if skip := after + 1 - r.first; len(r.events) > 0 && skip >= 0 && skip < int64(len(r.events)) {
		return r.events[skip:len(r.events):len(r.events)], r.news
	}
	return nil, r.news
}
