//go:build seeded_keptserver

package tool

// expire forgets a session and leaves its process running: a bug on purpose, which tests must find.
func (p *Servers) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, s.key)
}
