package chat

// Abandon makes all work end where it is. The work that calls it and does not return leaves its lease to run
// out, as a crash would.
func (s *Service) Abandon() { s.stop() }
