package ui

import (
	"fmt"
	"sync"
	"time"
)

// Spinner shows at a terminal that a request runs, its duration and its progress. A nil Spinner shows nothing.
type Spinner struct {
	out  Stream
	what string
	more func(took time.Duration) string // returns the progress; nil: unknown
	quit chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	state string
}

var spinnerFrames = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Spin starts a spinner. It returns nil if stderr is not a terminal.
func (u *UI) Spin(what string) *Spinner { return u.spinWith(what, nil) }

// spinWith starts a spinner that also shows the progress.
func (u *UI) spinWith(what string, more func(time.Duration) string) *Spinner {
	if !u.Err.TTY || u.JSON || u.Quiet || u.Getenv("TERM") == "dumb" {
		return nil
	}
	s := &Spinner{out: u.Err, what: what, more: more, quit: make(chan struct{})}
	s.done.Go(s.run)
	return s
}

// Phase sets the text after the name.
func (s *Spinner) Phase(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = ": " + state
}

// Stop ends the spinner and clears its line.
func (s *Spinner) Stop() {
	if s == nil {
		return
	}
	close(s.quit)
	s.done.Wait()
	fmt.Fprint(s.out, "\r\x1b[K")
}

func (s *Spinner) run() {
	start := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		s.draw(spinnerFrames[turn%len(spinnerFrames)], time.Since(start))
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
	}
}

func (s *Spinner) draw(mark rune, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	if s.more != nil {
		state = s.more(took)
	}
	fmt.Fprintf(s.out, "\r\x1b[K%c %s%s %s", mark, s.what, state, s.out.Paint(Dim, fmt.Sprintf("%.0fs", took.Seconds())))
}
