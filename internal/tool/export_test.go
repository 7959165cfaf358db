package tool

import "time"

// Limit changes how long an idle server is kept, and how many there may be.
func (p *Servers) Limit(idle time.Duration, most int) { p.idle, p.most = idle, most }

// Wait changes how long a list waits.
func (p *Servers) Wait(most time.Duration) { p.wait = most }

// Running is how many servers can be used.
func (p *Servers) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running)
}
