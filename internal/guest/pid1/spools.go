package pid1

import "github.com/berthdev/berth/internal/guest/spool"

// countOutput counts new output. After each sixteenth of SpoolBytes it adds up the sizes of all spools, and removes old
// output if they exceed SpoolBytes.
func (s *server) countOutput(n int) {
	if s.SpoolBytes <= 0 || s.uncounted.Add(int64(n)) < s.SpoolBytes/16 {
		return
	}
	s.uncounted.Store(0)
	s.mu.Lock()
	old, large, share := s.chooseSpools()
	s.mu.Unlock()
	for _, id := range old {
		_ = spool.Remove(s.Spools, id)
	}
	for _, w := range large {
		w.Shrink(share)
	}
}

// chooseSpools chooses the output to remove: the spools of ended processes, oldest first, and if that is not enough,
// the oldest output of running processes with more than their share. The caller holds the server's lock.
func (s *server) chooseSpools() (old []string, large []*spool.Writer, share int64) {
	total, running := int64(0), int64(0)
	for _, p := range s.processes {
		first, end := p.spool.Range()
		total += end - first
		if p.exit == nil {
			running++
		}
	}
	for len(s.ended) > len(old) && total > s.SpoolBytes {
		id := s.ended[len(old)]
		first, end := s.processes[id].spool.Range()
		total -= end - first
		delete(s.processes, id)
		old = append(old, id)
	}
	s.ended = append(s.ended[:0], s.ended[len(old):]...)
	if total <= s.SpoolBytes || running == 0 {
		return old, nil, 0
	}
	share = max(s.SpoolBytes/2/running, leastKept)
	for _, p := range s.processes {
		if first, end := p.spool.Range(); p.exit == nil && end-first > share {
			large = append(large, p.spool)
		}
	}
	return old, large, share
}
