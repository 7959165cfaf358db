package turn

import "sync"

// hub tells readers in this process of events that were stored, and keeps the newest of each turn that
// anybody reads, so that not every reader asks the database for every event.
type hub struct {
	mu    sync.Mutex
	turns map[string]*recent
}

// recent is the newest events of a turn.
type recent struct {
	readers int
	first   int64 // the number of events[0]
	events  [][]byte
	bytes   int
	news    chan struct{} // closed when there are more
}

// kept is how many bytes of a turn's newest events are kept.
const kept = 64 << 10

func newHub() *hub { return &hub{turns: map[string]*recent{}} }

// join says that somebody reads the turn, until leave is called.
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

// publish tells the turn's readers of events that are stored, from the number first on.
func (h *hub) publish(turn string, first int64, events [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.turns[turn]
	if r == nil {
		return
	}
	if first != r.first+int64(len(r.events)) { // what came between was stored by another process
		r.first, r.events, r.bytes = first, nil, 0
	}
	for _, e := range events {
		r.events = append(r.events, e)
		r.bytes += len(e)
	}
	for r.bytes > kept && len(r.events) > 1 {
		r.bytes -= len(r.events[0])
		r.events = r.events[1:]
		r.first++
	}
	r.tell()
}

// nudge makes the turn's readers look.
func (h *hub) nudge(turn string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.turns[turn]; r != nil {
		r.tell()
	}
}

func (r *recent) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

// since returns the events behind a number if they are all here, and a channel that tells of more. The
// caller must have joined.
func (h *hub) since(turn string, after int64) ([][]byte, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.turns[turn]
	if skip := after + 1 - r.first; len(r.events) > 0 && skip >= 0 && skip < int64(len(r.events)) {
		return r.events[skip:len(r.events):len(r.events)], r.news
	}
	return nil, r.news
}
