//go:build !seeded_keptserver

package tool

// expire retires a session that nobody uses any more.
func (p *Servers) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users == 0 {
		p.retire(s)
	}
}
