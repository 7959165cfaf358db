package cli

import (
	"fmt"
	"sync"
	"time"
)

// spinner shows on a terminal's stderr that something is under way, for how long, and how far. A
// nil spinner shows nothing.
type spinner struct {
	out  stream
	what string
	more func(took time.Duration) string // how far it is; nil: nobody knows
	quit chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	state string
}

var spins = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// spin begins one, unless nobody would see it.
func (f *frame) spin(what string) *spinner { return f.spinWith(what, nil) }

// spinWith begins one that shows how far it is, too.
func (f *frame) spinWith(what string, more func(time.Duration) string) *spinner {
	if !f.err.tty || f.json || f.quiet || f.env("TERM") == "dumb" {
		return nil
	}
	s := &spinner{out: f.err, what: what, more: more, quit: make(chan struct{})}
	s.done.Go(s.run)
	return s
}

// phase says what is being done now.
func (s *spinner) phase(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = ": " + state
}

// stop ends it and clears its line.
func (s *spinner) stop() {
	if s == nil {
		return
	}
	close(s.quit)
	s.done.Wait()
	fmt.Fprint(s.out, "\r\x1b[K")
}

func (s *spinner) run() {
	start := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		s.draw(spins[turn%len(spins)], time.Since(start))
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
	}
}

func (s *spinner) draw(mark rune, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	if s.more != nil {
		state = s.more(took)
	}
	fmt.Fprintf(s.out, "\r\x1b[K%c %s%s %s", mark, s.what, state, s.out.paint(dim, fmt.Sprintf("%.0fs", took.Seconds())))
}
